"""Verbs for the policies that operators set."""
