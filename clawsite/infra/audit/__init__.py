"""The audit log: record entries, chain them, verify and export them."""
