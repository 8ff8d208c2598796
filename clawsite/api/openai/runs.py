"""From a request to its run, and along it: which session is meant, what is queued and told, what if nobody listens any more."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_OID, uuid4, uuid5

from django.conf import settings
from django.http import HttpRequest

from agents.prepare.model_choice import choose_model
from clawsite.accounts.models import User
from clawsite.api.http.authentication import Caller
from clawsite.api.http.long_requests import AccessRevoked, watch_access
from clawsite.api.openai.completion_request import CompletionRequest
from clawsite.api.openai.errors import CompletionFailed, RequestRejected
from clawsite.api.openai.models import find_requested_agent
from clawsite.api.openai.run_updates import (
    AnswerDelta,
    CompletionUsage,
    KeepAlive,
    RunEnded,
    RunResumed,
    RunUpdate,
    RunUpdateBuilder,
    WaitingForPeople,
)
from clawsite.gateway.server.runtime import Runtime
from clawsite.gateway.server.session_address import to_address
from clawsite.infra import db
from clawsite.infra.errors import ClawError, InvalidRequest, NotFound
from clawsite.routing.inbound import Inbound, SessionAddress, receive
from sessions_app.keys import OPENAI_CHANNEL, parse_key
from sessions_app.models import Run
from sessions_app.runs.client_tools import CLIENT_TOOLS, TOOL_RESULTS
from sessions_app.runs.lifecycle import MAX_RUN_ID_LENGTH, AcceptedRun, request_abort
from sessions_app.runs.results import find_own_run, rebuild_answer_events
from sessions_app.sessions.service import find_session
from tools_app.sources import offered

log = logging.getLogger(__name__)

SESSION_HEADERS = ("x-clawsite-session-key", "x-openclaw-session-key")
MODEL_HEADERS = ("x-clawsite-model", "x-openclaw-model")
RESERVED_KINDS = ("subagent", "cron", "hook")  # sessions that others than people begin
MAX_USER_LENGTH = 300  # characters in a key
KEEP_ALIVE_SECONDS = 15.0  # proxies close what is silent for 30 to 60
CLIENT_LEFT = "client-left"
CREDENTIAL_ENDED = "credential-ended"


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run, and who asked for it."""

    who: Caller
    accepted: AcceptedRun
    agent: str
    aborts_on_disconnect: bool  # when the client goes away

    @property
    def user(self) -> User:
        return self.who.user

    @property
    def run_id(self) -> str:
        return self.accepted.run_id

    @property
    def created(self) -> int:
        return self.accepted.accepted_at_ms // 1000


async def start_run(request: HttpRequest, who: Caller, wish: CompletionRequest) -> StartedRun:
    """Queue the run."""
    user = who.user
    key = _read_idempotency_key(request)
    run_id = key or uuid4().hex
    agent = find_requested_agent(request, wish.model)
    to = await _find_session_address(request, user, wish, agent, run_id)
    fresh = to.key.startswith(f"agent:{agent}:{OPENAI_CHANNEL}:")
    options = _build_options(wish)
    if model := next((value for name in MODEL_HEADERS if (value := request.headers.get(name))), ""):
        options["model"] = await db.read(_choose_model, model)
    if wish.tools:
        await db.read(_reject_own_tool_names, wish)
    inbound = Inbound(
        user,
        wish.text,
        run_id,
        to,
        options,
        files=wish.files,
        verbatim=True,
        past=wish.past if fresh else (),
        channel=OPENAI_CHANNEL if fresh else "",
    )
    try:
        accepted = await receive(inbound)
    except InvalidRequest as error:
        if (error.details or {}).get("code") == "UNKNOWN_TOOL_CALL":
            raise RequestRejected(error.message, param="messages", code="unknown_tool_call") from error
        raise
    aborts = settings.HTTP_ABORT_ON_DISCONNECT and not key and accepted.created
    return StartedRun(who, accepted, agent, aborts)


def _read_idempotency_key(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > MAX_RUN_ID_LENGTH:
        raise RequestRejected(
            f"Idempotency-Key has at most {MAX_RUN_ID_LENGTH} characters", param="Idempotency-Key", code="invalid_value"
        )
    return key


async def _find_session_address(
    request: HttpRequest, user: User, wish: CompletionRequest, agent: str, run_id: str
) -> SessionAddress:
    """That of the earlier response, of the header, of the body's `user`; else one made for this request alone."""
    if wish.previous:
        try:
            run = await db.read(find_own_run, user, wish.previous.removeprefix("resp_"))
        except NotFound:
            words = f"previous response {wish.previous!r} was not found"
            raise RequestRejected(words, param="previous_response_id", code="previous_response_not_found") from None
        return SessionAddress(session_id=str(run.session_id), agent=run.session.agent)
    if named := next((value for name in SESSION_HEADERS if (value := request.headers.get(name))), ""):
        address = to_address(named, None, agent)
        if not address.session_id and parse_key(named, default_agent=agent).kind in RESERVED_KINDS:
            raise RequestRejected(
                f"the session key {named!r} is reserved: its sessions are begun by the gateway", param=SESSION_HEADERS[0]
            )
        return address
    if wish.user:
        # A colon would give the key a meaning of its own, such as that of a group chat.
        name = quote(wish.user, safe="@+=,~")
        if len(name) > MAX_USER_LENGTH:
            name = uuid5(NAMESPACE_OID, wish.user).hex
        return SessionAddress(f"agent:{agent}:openai-user:{name}", agent=agent)
    # By the run's id: the same Idempotency-Key again finds its session, and with it its run.
    return SessionAddress(f"agent:{agent}:{OPENAI_CHANNEL}:{uuid5(NAMESPACE_OID, f'{user.pk} {run_id}')}", agent=agent)


def _build_options(wish: CompletionRequest) -> dict[str, Any]:
    wished: dict[str, Any] = {
        "extraSystemPrompt": wish.system,
        "thinking": wish.thinking,
        "parameters": wish.parameters,
        CLIENT_TOOLS: list(wish.tools),
        TOOL_RESULTS: list(wish.results),
    }
    return {name: value for name, value in wished.items() if value}


def _choose_model(model: str) -> str:
    try:
        return choose_model(model)
    except InvalidRequest as error:
        raise RequestRejected(error.message, param=MODEL_HEADERS[0], code="model_not_found") from error


def _reject_own_tool_names(wish: CompletionRequest) -> None:
    """A tool of the caller never stands for one of ours, whether that is allowed here or not."""
    ours = offered.load_offered_tools(wait=False).facts
    for number, tool in enumerate(wish.tools):
        if tool["name"] in ours:
            raise RequestRejected(
                f"tools[{number}]: {tool['name']!r} is a tool of the gateway itself; give yours another name",
                param=f"tools[{number}].name",
                code="tool_name_taken",
            )


async def follow_run(runtime: Runtime, started: StartedRun) -> AsyncGenerator[RunUpdate, None]:
    """What happens, to the end; with signs of life in between. A caller who leaves before it stops the run, if that is wished.

    So does one who may not have the rest: NoLongerTheirs.
    """
    ended = False
    try:
        async with aclosing(_read_updates(runtime, started)) as happenings:
            async for happening in happenings:
                ended = isinstance(happening, RunEnded)
                yield happening
    except (asyncio.CancelledError, GeneratorExit, AccessRevoked) as left:
        if started.aborts_on_disconnect and not ended and not runtime.stopping:
            runtime.spawn(_abort(started, CREDENTIAL_ENDED if isinstance(left, AccessRevoked) else CLIENT_LEFT))
        raise


async def _read_updates(runtime: Runtime, started: StartedRun) -> AsyncGenerator[RunUpdate, None]:
    telling = RunUpdateBuilder()
    if started.accepted.status in Run.ENDED:
        for event in await db.read(rebuild_answer_events, started.accepted.pk):
            for happening in telling.take(event):
                yield happening
        return
    loop = asyncio.get_running_loop()
    parked_until: float | None = None
    approval = ""
    # The first event is the acceptance, which nobody needs to be told.
    events = runtime.run_feeds.follow(started.accepted.pk, after=1 if started.accepted.created else 0)
    async with aclosing(events), watch_access(runtime, started.who, started.accepted.session_id) as watch:
        while True:
            coming = asyncio.ensure_future(anext(events))
            try:
                while not coming.done():
                    patience = KEEP_ALIVE_SECONDS if parked_until is None else min(KEEP_ALIVE_SECONDS, parked_until - loop.time())
                    if patience <= 0:
                        for happening in _parked_updates(started, telling.usage, approval):
                            yield happening
                        return
                    await asyncio.wait({coming, watch}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                    if watch.done():
                        await watch
                    if not coming.done():
                        yield KeepAlive()
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait({coming})
            for happening in telling.take(coming.result()):
                match happening:
                    case WaitingForPeople(approval=approval):
                        parked_until = loop.time() + settings.HTTP_APPROVAL_WAIT_SECONDS
                    case RunResumed():
                        parked_until = None
                yield happening
                if isinstance(happening, RunEnded):
                    return


def _parked_updates(started: StartedRun, usage: CompletionUsage, approval: str) -> list[RunUpdate]:
    """People take longer than a request can wait. The run goes on when they have answered, and its end is in the session."""
    what = f"approval {approval}" if approval else "a person"
    words = (
        f"[Run {started.run_id} is waiting for {what}. It goes on when that is decided; "
        f"its answer will be in session {started.accepted.session_key}.]"
    )
    return [AnswerDelta(-1, words), RunEnded("stop", usage)]


async def _abort(started: StartedRun, reason: str) -> None:
    try:
        session = await db.read(find_session, started.user, session_id=str(started.accepted.session_id))
        await db.write(request_abort, user=started.user, session=session, run_id=started.run_id, reason=reason)
    except ClawError as error:
        log.warning("a run that nobody listens to any more could not be stopped: %s", error.message, extra={"run": started.run_id})


def to_failure(ended: RunEnded) -> CompletionFailed | None:
    return CompletionFailed(*ended.failure) if ended.failure else None
