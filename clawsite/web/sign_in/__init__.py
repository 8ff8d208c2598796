"""Sign-in and password confirmation."""
