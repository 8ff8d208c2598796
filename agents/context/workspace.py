"""Locate workspaces: a private directory per user, the agent's configured directory, or an isolated workspace."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from agents.models import Agent
from sessions_app.keys import SessionKey, parse_key
from tools_app.core.definition import AgentWorkspace
from tools_app.exec.rules import ExecRules
from tools_app.policy.catalog import WEBHOOK_CHANNEL


@dataclass(frozen=True, slots=True)
class SessionWorkspace:
    """`directory` is where tools read and write. An isolated session may also have access to the agent's workspace, `beside`."""

    directory: Path
    sandboxed: bool = False
    agent_workspace: AgentWorkspace | None = None


def workspace_path(agent: Agent, owner_id: int) -> Path:
    """Return the path, whether it exists or not. Directory names use our own IDs, never user input."""
    if agent.workspace:
        return Path(agent.workspace).expanduser()
    return Path(settings.HOME) / "workspaces" / agent.slug / f"user-{owner_id}"


def ensure_workspace(agent: Agent, owner_id: int) -> Path:
    """Return the workspace directory, creating it if needed."""
    return _make_directory(workspace_path(agent, owner_id))


def prepare_session_workspace(
    agent: Agent, owner_id: int, session_id: str, session_key: str, rules: ExecRules, *, from_hook: bool = False
) -> SessionWorkspace:
    """Return a session's workspace according to the exec rules, creating its directories if needed."""
    own = ensure_workspace(agent, owner_id)
    if not is_sandboxed(parse_key(session_key), rules, from_hook=from_hook):
        return SessionWorkspace(own)
    if rules.workspace_access == "rw":
        return SessionWorkspace(own, sandboxed=True)
    names = {"session": f"session-{session_id}", "agent": f"agent-{agent.slug}-user-{owner_id}", "shared": "shared"}
    inside = _make_directory(Path(settings.HOME) / "sandboxes" / names[rules.sandbox_scope])
    return SessionWorkspace(
        inside, sandboxed=True, agent_workspace=AgentWorkspace(own, "ro" if rules.workspace_access == "ro" else "none")
    )


def delete_sandbox(session_id: object) -> None:
    """Delete the session's isolated workspace on this host, if it has one."""
    shutil.rmtree(Path(settings.HOME) / "sandboxes" / f"session-{session_id}", ignore_errors=True)


def is_sandboxed(key: SessionKey, rules: ExecRules, *, from_hook: bool = False) -> bool:
    """Whether the session gets an isolated workspace. By default, group chats and webhooks do, because they carry others' content.

    A run that a webhook starts in another session also gets one, for that run only.
    """
    from_strangers = bool(key.group) or key.kind == WEBHOOK_CHANNEL or from_hook
    return rules.sandbox_mode == "all" or (rules.sandbox_mode == "groups" and from_strangers)


def _make_directory(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
