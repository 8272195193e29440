"""What is remembered of the metadata store: decoded nodes, absent ones too."""
