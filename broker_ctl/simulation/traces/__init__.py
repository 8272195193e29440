"""Recorded traffic in files."""
