"""What operators ask of the controller."""
