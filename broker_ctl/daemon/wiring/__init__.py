"""The parts of a daemon, built from its settings."""
