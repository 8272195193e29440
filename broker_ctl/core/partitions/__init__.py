"""Replicated partitions: what the controller decides (seed: replication design v3)."""
