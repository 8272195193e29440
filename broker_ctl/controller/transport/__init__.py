"""Transports of instructions to brokers, and their acknowledgements."""
