"""What all verbs share: the client, the daemon to ask, output, confirmation."""
