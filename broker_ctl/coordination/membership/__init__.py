"""The live brokers of the cluster."""
