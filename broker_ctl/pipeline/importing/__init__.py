"""Makes a history of what others have recorded, for clusters that never ran a daemon."""
