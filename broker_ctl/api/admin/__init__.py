"""Pulsar's admin API: ``/admin/v2``."""
