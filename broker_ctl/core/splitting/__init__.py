"""Where a bundle is cut: one algorithm per file."""
