"""Connected nodes: devices that run commands."""
