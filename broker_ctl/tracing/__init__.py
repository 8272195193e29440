"""Traces of lookups, decisions, moves and changes of owners over daemons (docs: trace)."""
