"""Keys of Pulsar's configuration files, and keys of earlier releases."""
