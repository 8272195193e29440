"""Settings of limits."""
