"""The cluster as a decision sees it, and the decisions."""
