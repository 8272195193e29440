"""``broker-ctl pipeline``: analysis of the history with Spark."""
