"""Commands for those who look for a fault."""
