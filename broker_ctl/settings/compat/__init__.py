"""Keys of Pulsar's configuration files."""
