"""Ownership of bundles: acquire, release, split, merge, and re-acquire after a session expiry."""
