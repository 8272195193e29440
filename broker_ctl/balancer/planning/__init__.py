"""Planning: from a snapshot to decisions, with cycles, drains, approvals and proposed plans."""
