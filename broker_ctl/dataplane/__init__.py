"""Data planes: broker processes that serve the messages, behind one protocol."""
