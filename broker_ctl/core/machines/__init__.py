"""State machines as tables: session, lease, lock, election, ownership, move."""
