"""The controller's reads and fenced writes of ZooKeeper."""
