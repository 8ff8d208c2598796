"""Approval requests on the wire: records, snapshots for OpenClaw's clients, details in messages, and decisions."""
