"""Lookups over HTTP: who serves a topic, and who leads a partition."""
