"""Keys, tokens and roles, from the settings."""
