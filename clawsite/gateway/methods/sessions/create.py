"""Create a session: empty, with its first message, or as a fork of another."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Literal, NotRequired, cast
from uuid import uuid4

from pydantic import AliasChoices, Field

from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.sessions.lifecycle import SessionAnswer, to_answer
from clawsite.gateway.protocol.params import Key
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.protocol.sessions import POLICY_ONLY, NewSession
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import find_session, to_address
from clawsite.gateway.server.session_requests import prepare_create, prepare_once
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from clawsite.routing.inbound import Inbound, SessionAddress, receive_in_new_session
from sessions_app.models import Session
from sessions_app.sessions.forks import fork_session

NO_PROJECTS = "sessions have no projects and no worktrees"


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
    fork_from: Literal["last-completed"] | None = None  # ignored: a fork only has completed messages
    emit_command_hooks: bool | None = None  # ignored: there are no such hooks
    succeeds_parent: bool | None = None  # ignored: the original stays unchanged


class CreateAnswer(SessionAnswer):
    runStarted: NotRequired[bool]
    runId: NotRequired[str]


@method("sessions.create", scope=Scope.WRITE, limited=LimitedTokenRule.CARRIED)
async def create(call: Call, params: CreateParams) -> CreateAnswer:
    """Create a session. Without a key, one is generated; with the key of an existing session, that session is returned.

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


async def _prepare_fork(call: Call, params: CreateParams) -> tuple[Callable[[], Session], str]:
    if params.key or not params.parent_session_key:
        raise InvalidRequest("a fork needs parentSessionKey and can't have a key")
    parent = await find_session(call, to_address(params.parent_session_key, None, params.agent_id))
    return prepare_once(call.user, params, parent.agent, partial(fork_session, call.user, parent))
