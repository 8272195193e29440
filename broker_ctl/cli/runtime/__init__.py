"""Shared by all commands: client, options, output, confirmation."""
