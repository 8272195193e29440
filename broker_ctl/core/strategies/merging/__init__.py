"""Chooses adjacent bundles to merge. Pulsar does not merge."""
