"""Settings of further ports."""
