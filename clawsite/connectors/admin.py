"""The admin pages of all connectors. The modules register themselves."""

from clawsite.connectors.webhook import admin, admin_log  # noqa: F401
