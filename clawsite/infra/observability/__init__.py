"""Logs, metrics, traces and redaction of secrets."""
