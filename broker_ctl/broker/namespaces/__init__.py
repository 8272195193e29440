"""Namespaces, their rings of bundles and their policies."""
