"""Health and the Prometheus page."""
