"""From a snapshot to decisions: cycles, drains, approvals, proposed plans."""
