"""What the controller does about an event: one procedure per file."""
