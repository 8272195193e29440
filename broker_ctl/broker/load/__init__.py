"""The load report of this broker."""
