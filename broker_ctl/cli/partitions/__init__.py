"""Verbs for replicated partitions and their controller."""
