"""Finding the owner of a topic."""
