"""Commands: rules, gate, plan, sandbox, processes."""
