"""The run queue: accept, claim, move, finish."""
