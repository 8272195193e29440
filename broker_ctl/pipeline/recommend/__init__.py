"""Recommendations from a back-test and a daily profile: settings, and a placement plan."""
