"""The gateway's tables in the admin. The modules register themselves."""

from clawsite.gateway.admin import devices  # noqa: F401
