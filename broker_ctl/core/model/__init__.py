"""Plain values: names, bundles, brokers, loads."""
