"""Locks: ephemeral nodes that name an owner."""
