"""Sections of a report, one subject a file: queries of Spark, rendered as plain values."""
