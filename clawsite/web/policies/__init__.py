"""Tool access explained, policy history, policy tests."""
