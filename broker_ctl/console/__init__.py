"""Pages of the console: plain values of the HTTP API rendered as HTML, without I/O."""
