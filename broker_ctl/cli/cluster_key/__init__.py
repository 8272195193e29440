"""Verbs of the cluster's keys."""
