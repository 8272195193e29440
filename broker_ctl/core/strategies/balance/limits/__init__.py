"""What operators allow at most: limits of brokers and caps of topics, in the planner."""
