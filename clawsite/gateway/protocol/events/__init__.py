"""Event payloads and the frames that carry them."""
