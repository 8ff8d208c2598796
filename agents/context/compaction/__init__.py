"""Summarize earlier messages when the context window fills up. Pure."""
