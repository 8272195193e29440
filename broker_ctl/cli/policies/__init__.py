"""Commands for tenants, clusters and policies."""
