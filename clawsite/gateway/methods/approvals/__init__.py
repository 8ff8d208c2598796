"""exec.approval.* and approval.* methods."""
