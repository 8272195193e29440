"""What a simulated cluster consists of."""
