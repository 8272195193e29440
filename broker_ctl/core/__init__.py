"""What to do, never doing it: plain values, policies and machines."""
