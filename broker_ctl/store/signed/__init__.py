"""Payloads that carry a signature under the cluster's key."""
