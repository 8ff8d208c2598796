"""Paired devices: keys, pairing requests, device tokens."""
