"""Wire types shared by the socket and HTTP: frames, errors, scopes, limits, events."""
