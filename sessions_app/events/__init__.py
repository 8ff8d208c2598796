"""The event log: append with the change it reports, publish after commit, replay."""
