"""Chooses the bundles that overloaded brokers give up: one strategy per file."""
