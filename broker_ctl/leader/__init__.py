"""What only the elected broker runs."""
