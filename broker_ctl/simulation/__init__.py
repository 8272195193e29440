"""Simulated workloads, and replays of balancing policies on them."""
