"""Balancing beside brokers that run their own ownership: a Pulsar cluster."""
