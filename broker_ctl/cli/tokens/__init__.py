"""Verbs of tokens: keys, and what is signed with them."""
