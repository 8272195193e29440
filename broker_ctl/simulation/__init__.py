"""Workloads and what comes of policies on them."""
