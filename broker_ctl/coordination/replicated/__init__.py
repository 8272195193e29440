"""Watched copies of nodes that one broker writes and all brokers read."""
