"""A daemon's start, run and end."""
