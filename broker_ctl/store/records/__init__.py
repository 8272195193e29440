"""The payloads of all nodes, by subject: the only place that knows a field's name."""
