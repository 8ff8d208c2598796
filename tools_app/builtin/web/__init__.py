"""Web tools: fetch and search."""
