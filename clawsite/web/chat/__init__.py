"""The chat page and its attachments."""
