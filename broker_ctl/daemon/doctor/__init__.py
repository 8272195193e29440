"""What is wrong on this machine, and what to do: configuration, machine, ports, ZooKeeper."""
