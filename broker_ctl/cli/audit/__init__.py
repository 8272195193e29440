"""Verbs of the audit log: `verify` and `tail`."""
