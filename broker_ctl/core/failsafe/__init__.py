"""Serving on while ZooKeeper is away, by promises of all members of the cluster."""
