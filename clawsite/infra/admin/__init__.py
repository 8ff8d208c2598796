"""The audit log in the admin, and the base classes of every app's admin. Modules that register a page are imported here."""

from clawsite.infra.admin import audit  # noqa: F401  # registers its page
