"""What is made of the tables; each is a function from frames to a frame."""
