"""Which neighbours are merged. Pulsar has nothing of the kind."""
