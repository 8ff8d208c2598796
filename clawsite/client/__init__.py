"""Python client of the gateway protocol."""
