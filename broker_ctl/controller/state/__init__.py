"""State changes of partitions and replicas, and their writes."""
