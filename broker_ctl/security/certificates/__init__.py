"""Certificates as proof of who a client or a broker is."""
