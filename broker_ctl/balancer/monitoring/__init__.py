"""The leader's knowledge of load: reports, history of bundles, the snapshot of a cycle."""
