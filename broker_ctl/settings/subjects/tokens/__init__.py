"""Tokens of clients."""
