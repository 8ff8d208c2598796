"""Transcript messages: read, rewind, notices."""
