"""Middleware and ASGI handlers."""
