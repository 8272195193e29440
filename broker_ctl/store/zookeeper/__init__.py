"""ZooKeeper: wire, connection, session and the store over them."""
