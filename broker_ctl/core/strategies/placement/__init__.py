"""Which broker receives a bundle: one strategy per file."""
