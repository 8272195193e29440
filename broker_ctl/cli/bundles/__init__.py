"""Verbs for topics, namespaces and bundles."""
