"""``broker-ctl secrets``."""
