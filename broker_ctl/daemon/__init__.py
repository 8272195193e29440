"""The composition root: builds every floor, runs it, and takes it down in order."""
