"""Where a bundle is split: one algorithm per file."""
