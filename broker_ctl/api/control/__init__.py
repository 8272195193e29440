"""``/control/v1``: what brokers and operators ask of each other's daemons."""
