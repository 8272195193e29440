"""What tests, trials and people who build brokers use; the parts for other packages are public.

`memory_store` is ZooKeeper in memory, `time` has an event loop and a clock under a test's control,
`simulated` is a broker process and what it served, `replica_client` talks to one, `conformance`
judges a broker process, `embedded` starts real servers and daemons.
"""
