"""Shows a Pulsar cluster, read by its admin API, as the nodes that it would have in ZooKeeper."""
