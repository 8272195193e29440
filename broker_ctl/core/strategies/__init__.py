"""What is shed, where it goes, where a bundle is split: one strategy per file."""
