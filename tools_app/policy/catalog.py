"""The names a policy entry can use, as data: groups, profiles, aliases, and the fixed lists. Pure.

Tools that are not built yet stand here too: an operator may refuse `exec` before the day it appears.
"""

# Every native tool, by its group. What belongs to no group stands under "".
NATIVE_TOOLS: dict[str, tuple[str, ...]] = {
    "fs": ("read", "write", "edit", "apply_patch", "glob", "grep"),
    "runtime": ("exec", "process"),
    "memory": ("memory_search", "memory_get"),
    "web": ("web_search", "web_fetch"),
    "sessions": ("sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status", "subagents"),
    "messaging": ("message",),
    "ui": ("browser", "canvas"),
    "automation": ("cron", "gateway"),
    "nodes": ("nodes",),
    "": ("image", "agents_list", "whatsapp_login"),
}
GROUP_BY_TOOL = {name: group for group, names in NATIVE_TOOLS.items() for name in names}
NATIVE_NAMES = frozenset(GROUP_BY_TOOL)

OPENCLAW_GROUP = "openclaw"  # group of every native tool
PLUGINS_GROUP = "plugins"  # group of every tool that another app brings
GROUPS = frozenset(group for group in NATIVE_TOOLS if group) | {OPENCLAW_GROUP, PLUGINS_GROUP}

# Allow list of each profile; an empty one does not limit.
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:sessions", "group:memory", "image"),
    "messaging": ("group:messaging", "sessions_list", "sessions_send", "session_status"),
    "full": (),
}
DEFAULT_PROFILE = "minimal"  # of an agent for which nobody has chosen one

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}

OWNER_ONLY = frozenset({"whatsapp_login"})

# Inside a sandbox, where an operator has not said otherwise: work on its files and talk to other sessions.
SANDBOX_ALLOW = (
    "group:fs",
    "group:runtime",
    "image",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "session_status",
)
SANDBOX_DENY = ("group:ui", "group:nodes", "group:automation")
SANDBOX_ALWAYS = ("image",)  # stays with whatever an operator allows there, unless it is denied

# In a webhook's run, where an operator has not said otherwise: what strangers wrote starts no command, reaches no notes and no
# other conversation, and changes nothing of the installation.
WEBHOOK_CHANNEL = "hook"  # the channel under which rules name webhooks
WEBHOOK_DENY = (
    "group:runtime",
    "group:automation",
    "group:nodes",
    "group:ui",
    "group:memory",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "subagents",
    "message",
)
# There besides, while such a run is in a conversation of its owner's: it reads all of that, and an address can carry words out.
VISITING_WEBHOOK_DENY = (*WEBHOOK_DENY, "group:web")

SUBAGENT_DENY = (
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "gateway",
    "agents_list",
    "whatsapp_login",
    "session_status",
    "cron",
    "memory_search",
    "memory_get",
)
