"""``broker-ctl failsafe``: the members that promise each other."""
