"""Support for tests of programs that build on this package."""
