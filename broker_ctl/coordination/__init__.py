"""Sessions, locks, elections, the registry of brokers, and commands between brokers."""
