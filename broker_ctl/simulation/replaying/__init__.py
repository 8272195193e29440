"""The cluster that a scenario is replayed in, and what its leader sees of it."""
