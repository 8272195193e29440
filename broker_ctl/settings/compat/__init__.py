"""Keys of Pulsar's own files and keys of earlier releases."""
