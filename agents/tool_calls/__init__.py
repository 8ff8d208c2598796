"""Decide on the tool calls of one model turn."""
