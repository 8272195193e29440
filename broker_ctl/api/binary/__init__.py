"""Pulsar's binary protocol, as far as a lookup needs it."""
