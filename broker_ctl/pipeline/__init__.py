"""The pipeline: a cluster's history becomes tables, profiles and advice, on Spark."""
