"""Policies as rows: versions, checks, files, replay, policy tests."""
