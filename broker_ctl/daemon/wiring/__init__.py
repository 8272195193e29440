"""Builds a daemon from its settings."""
