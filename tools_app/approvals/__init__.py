"""Approval requests: create, decide, expire, grants."""
