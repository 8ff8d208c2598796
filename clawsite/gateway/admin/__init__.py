"""The gateway's tables in the admin. The modules register themselves."""

from clawsite.gateway import admin_hook_log, admin_hooks  # noqa: F401  # register their pages
from clawsite.gateway.admin import devices  # noqa: F401
