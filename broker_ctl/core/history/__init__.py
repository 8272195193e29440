"""History: what is written down of a cluster, kind by kind, for whoever analyses it later."""
