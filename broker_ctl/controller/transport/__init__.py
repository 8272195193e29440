"""Instructions on their way to brokers, and their acknowledgements."""
