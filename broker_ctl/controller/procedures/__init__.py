"""The controller's procedures: how it handles each event, one procedure per file."""
