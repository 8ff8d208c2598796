"""The audit log in the admin, and the base classes every app's admin uses. Modules that register a page are imported here."""

from clawsite.infra.admin import audit  # noqa: F401  # registers its page
