"""A ZooKeeper ensemble in memory, held to the same contract suite as the real one."""
