"""What serves the messages, behind one protocol."""
