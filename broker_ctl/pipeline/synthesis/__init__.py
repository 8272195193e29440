"""Histories that never were: the scenarios, written down as daemons write theirs."""
