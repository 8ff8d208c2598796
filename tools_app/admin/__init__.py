"""Policies, sources and exec rules in the admin. Modules that register a page are imported here."""

from tools_app.admin import exec, policies, sources  # noqa: F401  # register their pages
