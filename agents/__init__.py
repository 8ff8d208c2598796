"""Run agents: claim a run, prepare it, call the model, carry out tool calls, store the results."""
