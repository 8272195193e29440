"""Nodes that several brokers follow, and that one of them writes."""
