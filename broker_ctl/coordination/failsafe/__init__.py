"""Serving on while ZooKeeper is away (docs: failsafe)."""
