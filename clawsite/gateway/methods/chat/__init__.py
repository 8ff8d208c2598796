"""chat.* methods."""
