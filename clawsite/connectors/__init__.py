"""Connectors: how messages from other services come in and go out. One folder per service."""
