"""Find the sessions a run's tools can reach: only those that every reader of the run's session can see.

Results become part of the session's transcript. If the owner could make the agent read a guest's sessions, or a guest the
owner's, sharing one session would share them all. So a shared session reaches only what all its members can see, and a private
one what its owner owns or shares; never what an account can see only because of its role.
"""

from uuid import UUID

from agents.tools.results import errors_as_tool_failures
from clawsite.accounts.models import User
from clawsite.infra.errors import InvalidRequest
from sessions_app.keys import parse_key, parse_shared_key
from sessions_app.models import Session, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.sessions.members import filter_shared_with
from sessions_app.sessions.service import find_session_by_id
from tools_app.core.definition import ToolEnv, ToolFailed


def find_sender(env: ToolEnv) -> User:
    return User.objects.get(pk=env.sender_id)


def find_reachable_sessions(env: ToolEnv) -> SessionQuerySet:
    if parse_key(env.session_key).kind == "group":  # a group's readers are known only to the channel
        return Session.objects.for_user(find_sender(env)).filter(pk=UUID(env.session_id))
    members = SessionMember.objects.filter(session_id=UUID(env.session_id)).values_list("user_id", flat=True)
    readers = {env.owner_id, env.sender_id, *members}
    found = Session.objects.for_user(find_sender(env))
    for reader in User.objects.filter(pk__in=readers):
        found = filter_shared_with(reader, found)
    return found


def find_session_by_key(env: ToolEnv, key: str) -> Session:
    """Find a session by the sender's own key, or by `session:<id>` for one shared with them."""
    with errors_as_tool_failures():
        found = _lookup_key(env, key)
    if found is None:
        raise _not_found_error(f"session {key!r}")
    return found


def find_session_by_label(env: ToolEnv, label: str, agent: str = "") -> Session:
    found = _lookup_label(env, label, agent)
    if found is None:
        raise _not_found_error(f"session labeled {label!r}" + (f" of agent {agent!r}" if agent else ""))
    return found


def find_session_by_name(env: ToolEnv, name: str) -> Session:
    """Find a session by its key or else by its label."""
    try:
        found = _lookup_key(env, name)
    except InvalidRequest:  # a label may contain spaces
        found = None
    found = found or _lookup_label(env, name)
    if found is None:
        raise _not_found_error(f"session with the key or label {name!r}")
    return found


def _lookup_key(env: ToolEnv, key: str) -> Session | None:
    if (wanted := parse_shared_key(key)) is not None:
        return find_session_by_id(find_reachable_sessions(env), wanted)
    return find_reachable_sessions(env).filter(owner=env.sender_id, key=str(parse_key(key, default_agent=env.agent))).first()


def _lookup_label(env: ToolEnv, label: str, agent: str = "") -> Session | None:
    """Find a session by label, the sender's own first: labels are unique per owner only."""
    found = find_reachable_sessions(env).filter(label=label).exclude(label="")
    if agent:
        found = found.filter(agent=agent)
    return found.filter(owner=env.sender_id).first() or found.order_by("-updated_at").first()


def _not_found_error(what: str) -> ToolFailed:
    return ToolFailed(f"there is no {what} that this session can reach; `sessions_list` shows those it can")
