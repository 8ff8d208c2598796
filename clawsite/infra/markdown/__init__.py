"""Render Markdown to sanitized HTML."""
