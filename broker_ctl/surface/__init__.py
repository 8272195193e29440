"""What the daemon shows: lookups, admin, control, health, metrics."""
