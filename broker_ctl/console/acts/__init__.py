"""What an operator may do on a page: the same request, and the same command, as elsewhere."""
