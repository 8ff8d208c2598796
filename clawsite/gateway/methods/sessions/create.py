"""Create a session: empty, with its first message, or as a fork of another."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NotRequired, cast
from uuid import uuid4

from pydantic import AliasChoices, Field

from clawsite.accounts.models import User
from clawsite.gateway.auth import limited_tokens
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.sessions.lifecycle import POLICY_ONLY, SessionAnswer, ThinkingLevel, to_answer
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Params, method
from clawsite.gateway.server.session_address import Id, IdempotencyKey, Key, find_session, to_address
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import Inbound, SessionAddress, open_session, receive_in_new_session
from sessions_app.keys import parse_key
from sessions_app.models import Session
from sessions_app.sessions.forks import fork_session
from sessions_app.sessions.idempotency import find_or_create_session

NO_PROJECTS = "sessions have no projects and no worktrees"


class NewSession(Params):
    key: Key | None = None
    agent_id: Id | None = None
    label: str = Field("", max_length=512)
    display_name: str = Field("", max_length=200)
    model: str = Field("", max_length=200)
    thinking_level: ThinkingLevel | None = None
    idempotency_key: IdempotencyKey | None = None  # for a session without a key; a key itself makes it idempotent


class CreateParams(NewSession):
    """`message` is sent immediately, like chat.send; `idempotencyKey` is then its run ID. `task` is an alias of `message`.

    With `fork` the session starts with the visible messages of `parentSessionKey`.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("permissionMode", "toolOverrides", "execNode", "cwd"), POLICY_ONLY),
        **dict.fromkeys(("projectId", "projectGitUrl", "worktree", "worktreeBaseRef", "worktreeName"), NO_PROJECTS),
        **dict.fromkeys(("contextWindow", "fastMode"), "choose a model"),
        "category": "sessions have no categories",
        "catalogId": "there are no session catalogs",
        "incognito": "a session stores all its messages",
        "visibility": "share it with people: sessions.share",
        "spawnDepth": "only agents can spawn sessions",
        "attachments": "send them with chat.send",
    }

    message: str = Field("", max_length=1_000_000, validation_alias=AliasChoices("message", "task"))
    parent_session_key: Key | None = None
    fork: bool = False
    fork_from: Literal["last-completed"] | None = None  # a fork only has completed messages
    emit_command_hooks: bool | None = None  # ignored: there are none
    succeeds_parent: bool | None = None  # ignored: the original stays unchanged


class CreateAnswer(SessionAnswer):
    runStarted: NotRequired[bool]
    runId: NotRequired[str]


@method("sessions.create", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED)
async def create(call: Call, params: CreateParams) -> CreateAnswer:
    """Create a session; without a key it gets one. An existing key returns that session.

    Without a key, a repeated `idempotencyKey` returns the same session and run; with a different request it is a CONFLICT.
    """
    make, order = (await _prepare_fork(call, params)) if params.fork else prepare_create(call.user, params)
    if not params.message:
        return cast("CreateAnswer", await to_answer(call, await db.write(make, key=order)))
    run_id = params.idempotency_key or uuid4().hex
    session, accepted = await receive_in_new_session(
        Inbound(call.user, params.message, run_id, SessionAddress(), verbatim=True), make, key=order
    )
    return CreateAnswer(**await to_answer(call, session), runStarted=True, runId=accepted.run_id)


def prepare_create(user: User, params: NewSession, **more: Any) -> tuple[Callable[[], Session], str]:
    """Return a function that finds or creates the session, and its order key; `more` are fields of a new session.

    A limited token can't set options for a session with a key, because runs with more tools may use that session.
    """
    fields = {
        "label": params.label,
        "title": params.display_name,
        "model": params.model,
        "thinking_level": params.thinking_level or "",
    }
    if params.key and any(fields.values()):
        limited_tokens.check_limited_token(
            user, LimitedTokenRule.REFUSED, "model, thinkingLevel, label or displayName together with a key"
        )
    address = SessionAddress(params.key or "", agent=(params.agent_id or "").lower())
    key, agent = address.own_key(), parse_key(address.own_key()).agent
    if address.agent and address.agent != agent:
        raise InvalidRequest(f"session key {key!r} belongs to agent {agent!r}, not {address.agent!r}")
    if params.key:
        return partial(open_session, user, key=key, **fields, **more), key
    return _prepare_once(user, params, agent, partial(open_session, user, agent=agent, **fields, **more))


async def _prepare_fork(call: Call, params: CreateParams) -> tuple[Callable[[], Session], str]:
    if params.key or not params.parent_session_key:
        raise InvalidRequest("a fork needs parentSessionKey and can't have a key")
    parent = await find_session(call, to_address(params.parent_session_key, None, params.agent_id))
    return _prepare_once(call.user, params, parent.agent, partial(fork_session, call.user, parent))


def _prepare_once(user: User, params: NewSession, agent: str, make: Callable[..., Session]) -> tuple[Callable[[], Session], str]:
    if params.idempotency_key is None:
        return make, ""
    request = params.model_dump(exclude={"agent_id", "idempotency_key"}, exclude_defaults=True)
    return partial(find_or_create_session, user, agent, params.idempotency_key, request, make), params.idempotency_key
