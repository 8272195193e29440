"""Leading beside brokers that nobody here wrote: a Pulsar cluster keeps its bundles itself."""
