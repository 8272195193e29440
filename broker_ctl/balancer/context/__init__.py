"""What the rooms of the balancer share: rules, reports, recorders of decisions and history."""
