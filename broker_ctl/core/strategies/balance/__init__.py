"""Our own planner: one objective for shedding, placing and splitting."""
