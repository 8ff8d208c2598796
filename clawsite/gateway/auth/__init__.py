"""Authenticate and authorize a connection."""
