"""What operators ask of the leader."""
