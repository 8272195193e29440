"""Checks of the files of secrets and certificates that a configuration names."""
