"""``/ui/``: the console of the cluster, a client of the same routes as the command line."""
