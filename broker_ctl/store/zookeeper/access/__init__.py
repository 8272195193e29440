"""Who this client is to ZooKeeper, and who may use its nodes."""
