"""Strategies of Pulsar's first load manager: quotas, ranks, shedding and placement by them."""
