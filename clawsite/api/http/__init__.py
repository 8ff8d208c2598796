"""Shared by all HTTP endpoints: authentication, permissions, pagination, errors."""
