"""``broker-ctl rollout``: restart every broker of a cluster without an outage."""
