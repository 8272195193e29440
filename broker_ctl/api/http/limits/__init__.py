"""What one server does at a time at most: connections, requests in progress, and their duration."""
