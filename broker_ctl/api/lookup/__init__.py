"""Lookups over HTTP: the owner of a topic, and the leader of a partition."""
