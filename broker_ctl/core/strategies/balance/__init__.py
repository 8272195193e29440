"""The planner of broker-ctl: one objective for shedding, placement and splitting."""
