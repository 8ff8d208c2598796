"""Notes in the workspace, indexed for search."""
