"""A metadata store inside this process, whose own nodes outlive it in a keeper's hands."""
