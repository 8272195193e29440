"""What the daemon serves: lookups, admin, control, health, metrics."""
