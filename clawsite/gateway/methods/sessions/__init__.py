"""sessions.* methods."""
