"""Decisions and loads recorded on disk, for the pipeline."""
