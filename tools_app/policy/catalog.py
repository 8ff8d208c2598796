"""The names that policy entries can use, as data: groups, tool profiles, aliases and fixed lists. Pure.

Includes tools that don't exist yet, so that an operator can deny a tool before it is added.
"""

# Native tools by group; tools without a group are under "".
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
PLUGINS_GROUP = "plugins"  # group of every tool from a plugin or MCP server
GROUPS = frozenset(group for group in NATIVE_TOOLS if group) | {OPENCLAW_GROUP, PLUGINS_GROUP}

# Allowlist of each tool profile; an empty list allows everything.
PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:sessions", "group:memory", "image"),
    "messaging": ("group:messaging", "sessions_list", "sessions_send", "session_status"),
    "full": (),
}
DEFAULT_PROFILE = "minimal"  # for agents without a tool profile

ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}

OWNER_ONLY = frozenset({"whatsapp_login"})

# Defaults in an isolated workspace, if no rule is set: work on its files and talk to other sessions.
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
SANDBOX_ALWAYS = ("image",)  # added to any allowlist set for isolated workspaces; a deny entry still wins

# Defaults for webhook runs, if no rule is set: untrusted content can't start commands, read memory or other sessions, or change
# the server.
WEBHOOK_CHANNEL = "hook"  # the channel of webhooks in group rules
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
# For webhook runs in one of the owner's own sessions: the run can read the whole session, and a URL could leak it.
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
