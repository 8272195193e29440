"""The named scenarios; `catalogue` has them by name."""
