"""The WebSocket gateway: handshake, methods, event delivery, devices."""
