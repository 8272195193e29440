"""What an overloaded broker gives up: one strategy per file."""
