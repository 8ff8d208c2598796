"""Argument rules of known programs."""
