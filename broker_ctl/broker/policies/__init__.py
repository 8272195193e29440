"""Policies that operators set: isolation, affinity, quotas, clusters, tenants, configuration."""
