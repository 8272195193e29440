"""The report: one HTML file about one cluster, and the same numbers as JSON."""
