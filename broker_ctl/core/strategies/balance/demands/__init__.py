"""What bundles demand of their brokers: now, and averaged over time."""
