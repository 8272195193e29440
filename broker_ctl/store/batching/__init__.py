"""Lanes and batches over a metadata store."""
