"""Caches of the metadata store: decoded nodes, and nodes that are absent."""
