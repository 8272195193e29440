"""Replicated partitions: what the controller decides (docs: kafka-design-v3)."""
