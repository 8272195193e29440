"""Parts of a daemon beside a Pulsar cluster that others are wired to."""
