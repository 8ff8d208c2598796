"""Policies in the database: versions, checks, files, replay, policy tests."""
