"""Limits of what one client may use: how clients are identified, and their rates."""
