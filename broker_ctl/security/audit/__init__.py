"""The audit log: changes and refused requests, each linked to the one before by its hash."""
