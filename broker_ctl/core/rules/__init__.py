"""What policies go by: one value per setting."""
