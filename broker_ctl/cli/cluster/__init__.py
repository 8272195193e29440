"""Verbs that show the cluster and configure it."""
