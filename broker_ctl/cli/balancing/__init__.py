"""Verbs that steer the balancer: plan, pause, drain."""
