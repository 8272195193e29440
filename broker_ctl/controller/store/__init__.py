"""What the controller reads and writes in ZooKeeper, fenced by its epoch."""
