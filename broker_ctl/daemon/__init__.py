"""The composition root: builds, runs and stops all parts of a daemon."""
