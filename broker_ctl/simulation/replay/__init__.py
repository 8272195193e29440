"""A scenario replayed: the cluster, what its leader sees of it, and the scores."""
