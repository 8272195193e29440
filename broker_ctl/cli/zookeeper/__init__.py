"""``broker-ctl zookeeper``: embedded servers and the state of an ensemble."""
