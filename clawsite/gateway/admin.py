"""The gateway's tables in the admin. The modules register themselves."""

from clawsite.gateway import admin_devices, admin_hook_log, admin_hooks  # noqa: F401  # imported for that
