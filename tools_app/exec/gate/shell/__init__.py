"""Parse and walk a shell command line."""
