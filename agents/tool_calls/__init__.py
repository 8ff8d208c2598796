"""The path of a tool call: guard, hooks, plan, authorize, start, run, record."""
