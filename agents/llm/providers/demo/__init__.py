"""The built-in demo model, which needs no API key."""
