"""Verbs of an authority for certificates."""
