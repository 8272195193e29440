"""``broker-ctl pipeline``: history taken in, profiled, back-tested and reported by Spark."""
