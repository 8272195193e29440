"""Replays of histories and scenarios on Spark: sweeps, and what they prove."""
