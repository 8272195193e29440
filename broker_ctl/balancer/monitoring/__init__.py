"""What the leader knows of loads: reports, history of bundles, the snapshot of a cycle."""
