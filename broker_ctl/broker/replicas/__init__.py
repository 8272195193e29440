"""The replicas of partitions that this broker keeps, and who leads them."""
