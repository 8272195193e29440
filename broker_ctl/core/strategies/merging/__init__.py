"""Which neighbours are merged. Pulsar does not merge."""
