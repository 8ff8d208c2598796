"""Tools: definition, policy, sources, approvals, execution."""
