"""Strategies for shedding, placement and splitting: one per file."""
