"""How requests, nodes and redirects are proven: pure functions of keys, bytes and times."""
