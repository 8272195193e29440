"""A broker process of another program, reached over HTTP."""
