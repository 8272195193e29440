"""What a report says, a subject a file: asked of Spark, and told in plain values."""
