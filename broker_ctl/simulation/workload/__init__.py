"""Which topics there are, and their traffic over time."""
