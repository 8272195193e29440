"""Every setting once, by subject."""
