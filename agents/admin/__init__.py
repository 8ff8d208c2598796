"""Agents in the admin. Django imports `<app>.admin` only, so every module that registers a page is imported here."""

from agents.admin import agents  # noqa: F401  # registers its page
