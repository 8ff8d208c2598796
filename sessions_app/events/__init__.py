"""The event log: append events together with the change they report, publish them after commit, replay them."""
