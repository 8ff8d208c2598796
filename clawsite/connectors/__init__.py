"""Connectors: exchange messages with other services. One folder per service."""
