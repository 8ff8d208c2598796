"""From an incoming message to a queued run: directives, session, agent."""
