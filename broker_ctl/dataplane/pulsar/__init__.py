"""A cluster of Pulsar brokers, through its admin API over HTTP."""
