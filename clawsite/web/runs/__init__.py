"""The run timeline."""
