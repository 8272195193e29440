"""How clients, requests, nodes and redirects are proven: functions of keys, bytes and times."""
