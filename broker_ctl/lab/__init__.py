"""Public support for tests of programs that build on broker-ctl.

`memory_store` is ZooKeeper in memory, `virtual_time` and `manual_clock` are clocks under a test's
control, `serve_log` records what a simulated broker served, `replica_client` talks to one.
"""
