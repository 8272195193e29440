"""Sessions, locks, elections and what brokers say to each other."""
