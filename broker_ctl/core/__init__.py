"""Decisions without side effects: plain values, policies and state machines."""
