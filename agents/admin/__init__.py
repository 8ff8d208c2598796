"""Agents in the admin. Django imports only `<app>.admin`, so this imports every module that registers a page."""

from agents.admin import agents  # noqa: F401  # registers its page
