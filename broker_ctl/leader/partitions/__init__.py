"""The partition controller: what only the broker that holds its seat runs (seed: A, C, D, F)."""
