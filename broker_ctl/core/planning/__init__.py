"""From a view of the cluster to a plan within budgets."""
