"""The session: its state, its lease, its heartbeats."""
