"""Restarts of a whole cluster, broker by broker, without an outage."""
