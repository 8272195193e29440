"""Shared parts of the balancer: rules, reports, recorders of decisions and history."""
