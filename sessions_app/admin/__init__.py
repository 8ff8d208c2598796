"""Sessions, runs and logs in the admin. Modules that register a page are imported here."""

from sessions_app.admin import log, sessions  # noqa: F401  # register their pages
