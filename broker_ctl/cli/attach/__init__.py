"""``broker-ctl attach``: balancing beside a Pulsar cluster."""
