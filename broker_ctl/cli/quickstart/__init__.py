"""``broker-ctl quickstart``: a demo cluster on this machine."""
