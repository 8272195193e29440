"""A replay as a picture."""
