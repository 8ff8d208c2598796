"""Build the plan of a run: model, tools, policy, limits."""
