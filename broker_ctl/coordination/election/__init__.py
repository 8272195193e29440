"""Elections, and what the one elected is."""
