"""What is remembered of the metadata store: values, children, and whether nodes exist."""
