"""node.* methods."""
