"""Secrets and certificates that are replaced while the daemon runs."""
