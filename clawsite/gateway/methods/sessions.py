"""One session: made, found, changed, reset, deleted."""

from functools import partial
from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.addressing import ByKey, Id, Key, address_of, found
from clawsite.gateway.defaults import default_model
from clawsite.gateway.registry import Call, Params, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest, NotFound
from clawsite.routing.inbound import Address, find_or_none, open_session
from sessions_app import marks, selectors, sessions
from sessions_app.keys import parse_key
from sessions_app.models import Session

Level = Literal["off", "minimal", "low", "medium", "high", "xhigh"]
Row = dict[str, Any]


class SessionAnswer(TypedDict):
    ok: Literal[True]
    key: str
    sessionId: str
    entry: Row


async def answer_of(call: Call, session: Session) -> SessionAnswer:
    """The session as the caller's list shows it."""
    noted = await db.read(marks.facts, call.user, [session])
    key = session.key_for(call.user.pk)
    entry = {**selectors.session_row(session), "key": key, **noted[session.pk]}
    return SessionAnswer(ok=True, key=key, sessionId=str(session.generation_id), entry=entry)


class CreateParams(Params):
    key: Key | None = None
    agent_id: Id | None = None
    label: str = Field("", max_length=512)
    display_name: str = Field("", max_length=200)
    model: str = Field("", max_length=200)
    thinking_level: Level | None = None
    idempotency_key: str | None = None  # the key itself already makes it idempotent


@method("sessions.create", scope=Scope.WRITE)
async def create(call: Call, params: CreateParams) -> SessionAnswer:
    """Make a session; without a key it gets one. A key that exists already returns that session."""
    fields = {
        "label": params.label,
        "title": params.display_name,
        "model": params.model,
        "thinking_level": params.thinking_level or "",
    }
    address = Address(params.key or "", agent=(params.agent_id or "").lower())
    key, agent = address.own_key(), parse_key(address.own_key()).agent
    if address.agent and address.agent != agent:
        raise InvalidRequest(f"session key {key!r} belongs to agent {agent!r}, not {address.agent!r}")
    # A partial, because `key` of db.write is the session to lock.
    made = await db.write(partial(open_session, call.user, key=key if params.key else None, agent=agent, **fields))
    return await answer_of(call, made)


class ResolveParams(Params):
    """Exactly one of key, sessionId and label."""

    key: Key | None = None
    session_id: Id | None = None
    label: str | None = Field(None, max_length=512)
    agent_id: Id | None = None
    include_global: bool = True
    include_unknown: bool = True


class ResolveAnswer(TypedDict):
    ok: Literal[True]
    key: str
    sessionId: str


@method("sessions.resolve", scope=Scope.READ)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Find a session by one of its names."""
    if sum(name is not None for name in (params.key, params.session_id, params.label)) != 1:
        raise InvalidRequest("give exactly one of key, sessionId and label")
    if params.label is not None:
        session = await db.read(_by_label, call, params.label, params.agent_id)
    else:
        session = await found(call, address_of(params.key, params.session_id, params.agent_id))
    return ResolveAnswer(ok=True, key=session.key_for(call.user.pk), sessionId=str(session.generation_id))


def _by_label(call: Call, label: str, agent: str | None) -> Session:
    visible = Session.objects.for_user(call.user).filter(label=label, owner=call.user)
    session = (visible.filter(agent=agent) if agent else visible).first()
    if session is None:
        raise NotFound(f"none of your sessions has the label {label!r}")
    return session


class PatchParams(ByKey):
    """Fields that are left out stay as they are; null clears. `pinned` and `archived` are the caller's own marks."""

    label: str | None = Field(None, max_length=512)
    title: str | None = Field(None, max_length=200)
    model: str | None = Field(None, max_length=200)
    thinking_level: Level | None = None
    verbose_level: Literal["off", "on", "full"] | None = None
    reasoning_level: Literal["off", "on", "stream"] | None = None
    response_usage: Literal["off", "tokens", "full", "on"] | None = None
    elevated_level: Literal["off", "on", "ask", "full"] | None = None
    send_policy: Literal["allow", "deny"] | None = None
    group_activation: Literal["mention", "always"] | None = None
    pinned: bool | None = None
    archived: bool | None = None


class PatchAnswer(SessionAnswer):
    path: str
    resolved: dict[str, str]


@method("sessions.patch", scope=Scope.WRITE)
async def patch(call: Call, params: PatchParams) -> PatchAnswer:
    """Change a session of one's own; one that does not exist yet is made. Whoever may see a session may pin and archive it."""
    given = params.model_dump(by_alias=True, include=params.model_fields_set - {"key", "session_id", "agent_id"})
    wanted = {name: bool(given.pop(name)) for name in ("pinned", "archived") if name in given}
    session = await db.read(find_or_none, call.user, params.address)
    if session is None:
        session = await db.write(_made_and_patched, call, params.address.own_key(), given)
    elif given or not wanted:
        session = await db.write(sessions.patch_session, call.user, session, given, key=str(session.id))
    if wanted:
        await db.write(partial(marks.mark_session, call.user, session, **wanted), key=str(session.id))
    model = session.model or await db.read(default_model)
    resolved = {"modelProvider": model.partition("/")[0], "model": model.partition("/")[2]}
    return PatchAnswer(**await answer_of(call, session), path="", resolved=resolved)


def _made_and_patched(call: Call, key: str, given: dict[str, Any]) -> Session:
    return sessions.patch_session(call.user, open_session(call.user, key=key), given)


class ResetParams(ByKey):
    reason: Literal["new", "reset"] | None = None


@method("sessions.reset", scope=Scope.WRITE)
async def reset(call: Call, params: ResetParams) -> SessionAnswer:
    """Start anew under the same key: an empty history and a new sessionId. What still runs is stopped."""
    session = await found(call, params.address)
    return await answer_of(call, await db.write(sessions.reset_session, call.user, session, key=str(session.id)))


class DeleteParams(ByKey):
    delete_transcript: bool = True


class DeleteAnswer(TypedDict):
    """`sessionId` is what sessions.restore takes; null when there was nothing to delete."""

    ok: Literal[True]
    key: str
    sessionId: str | None
    deleted: bool
    archived: list[str]


@method("sessions.delete", scope=Scope.WRITE)
async def delete(call: Call, params: DeleteParams) -> DeleteAnswer:
    """Delete a session and stop its runs. The main session of an agent can only be reset. sessions.restore undoes it."""
    session = await db.read(find_or_none, call.user, params.address)
    if session is None:
        return DeleteAnswer(ok=True, key=params.address.own_key(), sessionId=None, deleted=False, archived=[])
    deleted = await db.write(sessions.delete_session, call.user, session, key=str(session.id))
    session_id = str(session.generation_id)
    return DeleteAnswer(ok=True, key=str(parse_key(session.key)), sessionId=session_id, deleted=deleted, archived=[])


class RestoreParams(Params):
    session_id: Id


class RestoreAnswer(SessionAnswer):
    restored: bool  # false: it was not deleted


@method("sessions.restore", scope=Scope.WRITE)
async def restore(call: Call, params: RestoreParams) -> RestoreAnswer:
    """Undo the deletion of a session of one's own, within 30 days. CONFLICT when its key has a new session by now."""
    session, restored = await db.write(sessions.restore_session, call.user, params.session_id)
    return RestoreAnswer(**await answer_of(call, session), restored=restored)


class ReadAnswer(TypedDict):
    ok: Literal[True]
    key: str
    sessionId: str


@method("sessions.read", scope=Scope.WRITE)
async def read(call: Call, params: ByKey) -> ReadAnswer:
    """Mark everything that a session says up to now as read, for oneself."""
    session = await found(call, params.address)
    await db.write(marks.mark_read, call.user, session, key=str(session.id))
    return ReadAnswer(ok=True, key=session.key_for(call.user.pk), sessionId=str(session.generation_id))
