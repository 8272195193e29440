"""Which brokers there are."""
