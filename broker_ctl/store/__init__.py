"""Metadata store: one protocol, ZooKeeper and memory behind it."""
