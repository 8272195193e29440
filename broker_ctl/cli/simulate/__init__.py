"""``broker-ctl simulate``: a day of traffic replayed in seconds."""
