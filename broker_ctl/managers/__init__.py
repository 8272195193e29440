"""What every broker runs."""
