"""What keeps a session alive: pings, and a thread for a busy event loop."""
