"""Control plane of a message-broker cluster."""
