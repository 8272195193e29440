"""``broker-ctl quickstart``: a cluster of three on this machine."""
