"""What each page of the console shows, computed from the rows of the API."""
