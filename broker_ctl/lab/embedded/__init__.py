"""A real ZooKeeper from the jars that PySpark ships, for trying and testing."""
