"""Find, change, reset, delete and restore a session."""

from collections.abc import Mapping
from typing import ClassVar, Literal, NotRequired

from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.defaults import get_session_default_model
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import Changes, SessionRow, to_row
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import ByKey, check_session_unchanged, find_session, to_address
from clawsite.gateway.server.session_requests import apply_changes
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest, NotFound
from clawsite.routing.inbound import find_session_or_none
from sessions_app.keys import parse_key
from sessions_app.models import Session
from sessions_app.sessions import marks
from sessions_app.sessions import service as session_service


class SessionAnswer(TypedDict):
    ok: Literal[True]
    key: str
    sessionId: str
    entry: SessionRow


async def to_answer(call: Call, session: Session) -> SessionAnswer:
    entry = await db.read(to_row, call.user, session)
    return SessionAnswer(ok=True, key=entry["key"], sessionId=str(session.generation_id), entry=entry)


class ResolveParams(Params):
    """Exactly one of key, sessionId and label. With `allowMissing` the result is `{ok: false}` if there is no such session."""

    refused: ClassVar[Mapping[str, str]] = {
        "shortId": "use the complete sessionId",
        "slugHint": "use the sessionId, key or label",
        "spawnedBy": "use the sessionId, key or label",
    }

    key: Key | None = None
    session_id: Id | None = None
    label: str | None = Field(None, max_length=512)
    agent_id: Id | None = None
    include_global: bool = True
    include_unknown: bool = True
    allow_missing: bool = False


class ResolveAnswer(TypedDict):
    ok: bool
    key: NotRequired[str]
    sessionId: NotRequired[str]
    agentId: NotRequired[str]


@method("sessions.resolve", scope=Scope.READ)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Find a session by key, ID or label."""
    if sum(name is not None for name in (params.key, params.session_id, params.label)) != 1:
        raise InvalidRequest("set exactly one of key, sessionId and label")
    try:
        if params.label is not None:
            session = await db.read(_find_by_label, call, params.label, params.agent_id)
        else:
            session = await find_session(call, to_address(params.key, params.session_id, params.agent_id))
    except NotFound:
        if params.allow_missing:
            return ResolveAnswer(ok=False)
        raise
    key, session_id = session.key_for(call.user.pk), str(session.generation_id)
    return ResolveAnswer(ok=True, key=key, sessionId=session_id, agentId=session.agent)


def _find_by_label(call: Call, label: str, agent: str | None) -> Session:
    visible = Session.objects.for_user(call.user).filter(label=label, owner=call.user)
    session = (visible.filter(agent=agent) if agent else visible).first()
    if session is None:
        raise NotFound(_("No session has the label “%(label)s”.") % {"label": label})
    return session


class PatchParams(ByKey, Changes):
    """Omitted fields are unchanged; null clears. `pinned`, `archived` and `unread` are the caller's own marks.

    `reasoningLevel` and `responseUsage` are stored for clients, as display settings; they have no other effect.
    With `expectedSessionId` it is a CONFLICT if the session was reset.
    """

    expected_session_id: Id | None = None


class PatchAnswer(SessionAnswer):
    path: str
    resolved: dict[str, str]


@method("sessions.patch", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def patch(call: Call, params: PatchParams) -> PatchAnswer:
    """Change your own session; it is created if it does not exist. Anyone who can see a session can set their own marks."""
    session = await db.read(find_session_or_none, call.user, params.address)
    check_session_unchanged(session, params.expected_session_id)
    session = await apply_changes(call.user, session or params.address.own_key(), params)
    model = session.model or await db.read(get_session_default_model)
    resolved = {"modelProvider": model.partition("/")[0], "model": model.partition("/")[2]}
    return PatchAnswer(**await to_answer(call, session), path="", resolved=resolved)


class ResetParams(ByKey):
    reason: Literal["new", "reset"] | None = None
    expected_session_id: Id | None = None


@method("sessions.reset", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def reset(call: Call, params: ResetParams) -> SessionAnswer:
    """Reset a session: the same key with an empty history and a new sessionId. Its runs are stopped."""
    session = await find_session(call, params.address)
    check_session_unchanged(session, params.expected_session_id)
    return await to_answer(call, await db.write(session_service.reset_session, call.user, session, key=str(session.id)))


class DeleteParams(ByKey):
    """A deleted session's transcript is stored for 30 days, regardless of `deleteTranscript`."""

    refused: ClassVar[Mapping[str, str]] = {
        "expectedLifecycleRevision": "use expectedSessionId",
        "expectedSessionUpdatedAt": "use expectedSessionId",
        "archivedOnly": "archiving is each user's own mark and does not affect the session",
    }

    delete_transcript: bool = True
    expected_session_id: Id | None = None
    emit_lifecycle_hooks: bool | None = None  # ignored: there are no such hooks


class DeleteAnswer(TypedDict):
    """Pass `sessionId` to sessions.restore; it is null if there was nothing to delete."""

    ok: Literal[True]
    key: str
    sessionId: str | None
    deleted: bool
    archived: list[str]


@method("sessions.delete", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def delete(call: Call, params: DeleteParams) -> DeleteAnswer:
    """Delete a session and stop its runs. An agent's main session can only be reset. sessions.restore undoes it."""
    session = await db.read(find_session_or_none, call.user, params.address)
    if session is None:
        return DeleteAnswer(ok=True, key=params.address.own_key(), sessionId=None, deleted=False, archived=[])
    check_session_unchanged(session, params.expected_session_id)
    deleted = await db.write(session_service.delete_session, call.user, session, key=str(session.id))
    session_id = str(session.generation_id)
    return DeleteAnswer(ok=True, key=str(parse_key(session.key)), sessionId=session_id, deleted=deleted, archived=[])


class RestoreParams(Params):
    session_id: Id


class RestoreAnswer(SessionAnswer):
    restored: bool  # false if it was not deleted


@method("sessions.restore", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def restore(call: Call, params: RestoreParams) -> RestoreAnswer:
    """Restore your own deleted session within 30 days. CONFLICT if there is a new session with its key."""
    session, restored = await db.write(session_service.restore_session, call.user, params.session_id)
    return RestoreAnswer(**await to_answer(call, session), restored=restored)


class ReadAnswer(TypedDict):
    ok: Literal[True]
    key: str
    sessionId: str


@method("sessions.read", scope=Scope.WRITE, limited=LimitedTokenRule.HARMLESS)
async def read(call: Call, params: ByKey) -> ReadAnswer:
    """Mark a session's messages up to now as read, for yourself."""
    session = await find_session(call, params.address)
    await db.write(marks.mark_read, call.user, session, key=str(session.id))
    return ReadAnswer(ok=True, key=session.key_for(call.user.pk), sessionId=str(session.generation_id))
