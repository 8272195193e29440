"""The settings: one file per subject."""
