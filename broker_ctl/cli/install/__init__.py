"""Files for operators that come with the package: unit, alerts, dashboard, first settings."""
