"""History of a cluster: kinds of rows that are written for later analysis."""
