"""Execution of decisions: transfers, unloads, splits, and their outcomes."""
