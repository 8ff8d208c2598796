"""Sign-in: throttling, signed-in browsers, recent passwords, the first administrator."""
