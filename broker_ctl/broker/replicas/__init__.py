"""The replicas of partitions that this broker keeps, and lookups of partition leaders."""
