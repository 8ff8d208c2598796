"""The run queue: accept, claim, advance and finish runs."""
