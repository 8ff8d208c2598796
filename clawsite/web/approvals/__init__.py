"""Approval requests, decisions, grants and their history."""
