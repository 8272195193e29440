"""What a back-test and a daily profile speak for: settings, and a placement plan."""
