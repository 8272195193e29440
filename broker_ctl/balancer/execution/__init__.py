"""Decisions carried out: transfers, unloads, splits, and their outcomes."""
