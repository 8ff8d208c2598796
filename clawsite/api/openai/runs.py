"""Start a run for a completion request and follow it: choose the session, yield updates, stop the run if the client leaves."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
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
from sessions_app.run_request import Prompt, RunRequest, ToolResults
from sessions_app.runs.lifecycle import MAX_RUN_ID_LENGTH, AcceptedRun, request_abort
from sessions_app.runs.results import find_own_run, rebuild_answer_events
from sessions_app.sessions.service import find_session
from tools_app.sources import offered

log = logging.getLogger(__name__)

SESSION_HEADERS = ("x-clawsite-session-key", "x-openclaw-session-key")
MODEL_HEADERS = ("x-clawsite-model", "x-openclaw-model")
RESERVED_KINDS = ("subagent", "cron", "hook")  # sessions that only the gateway creates
MAX_USER_LENGTH = 300  # characters in a session key
KEEP_ALIVE_SECONDS = 15.0  # proxies close connections that are idle for 30 to 60 s
CLIENT_LEFT = "client-left"
CREDENTIAL_ENDED = "credential-ended"


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run and its caller."""

    caller: Caller
    accepted: AcceptedRun
    agent: str
    aborts_on_disconnect: bool  # stop the run when the client disconnects

    @property
    def user(self) -> User:
        return self.caller.user

    @property
    def run_id(self) -> str:
        return self.accepted.run_id

    @property
    def created(self) -> int:
        return self.accepted.accepted_at_ms // 1000


async def start_run(request: HttpRequest, caller: Caller, params: CompletionRequest) -> StartedRun:
    """Queue the run."""
    user = caller.user
    key = _read_idempotency_key(request)
    run_id = key or uuid4().hex
    agent = find_requested_agent(request, params.model)
    to = await _find_session_address(request, user, params, agent, run_id)
    fresh = to.key.startswith(f"agent:{agent}:{OPENAI_CHANNEL}:")
    model = next((value for name in MODEL_HEADERS if (value := request.headers.get(name))), "")
    run_request = RunRequest(
        ToolResults(params.results) if params.results else Prompt(),
        model=await db.read(_choose_model, model) if model else "",
        thinking=params.thinking,
        parameters=params.parameters,
        extra_system_prompt=params.system,
        client_tools=params.tools,
    )
    if params.tools:
        await db.read(_reject_own_tool_names, params)
    inbound = Inbound(
        user,
        params.text,
        run_id,
        to,
        run_request,
        files=params.files,
        verbatim=True,
        past=params.past if fresh else (),
        channel=OPENAI_CHANNEL if fresh else "",
    )
    try:
        accepted = await receive(inbound)
    except InvalidRequest as error:
        if (error.details or {}).get("code") == "UNKNOWN_TOOL_CALL":
            raise RequestRejected(error.message, param="messages", code="unknown_tool_call") from error
        raise
    aborts = settings.HTTP_ABORT_ON_DISCONNECT and not key and accepted.created
    return StartedRun(caller, accepted, agent, aborts)


def _read_idempotency_key(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > MAX_RUN_ID_LENGTH:
        raise RequestRejected(
            f"Idempotency-Key exceeds {MAX_RUN_ID_LENGTH} characters", param="Idempotency-Key", code="invalid_value"
        )
    return key


async def _find_session_address(
    request: HttpRequest, user: User, params: CompletionRequest, agent: str, run_id: str
) -> SessionAddress:
    """Use the session of the previous response, the header, or the body's `user`; otherwise create one for this request."""
    if params.previous:
        try:
            run = await db.read(find_own_run, user, params.previous.removeprefix("resp_"))
        except NotFound:
            message = f"previous response {params.previous!r} was not found"
            raise RequestRejected(message, param="previous_response_id", code="previous_response_not_found") from None
        return SessionAddress(session_id=str(run.session_id), agent=run.session.agent)
    if session_key := next((value for name in SESSION_HEADERS if (value := request.headers.get(name))), ""):
        address = to_address(session_key, None, agent)
        if not address.session_id and parse_key(session_key, default_agent=agent).kind in RESERVED_KINDS:
            raise RequestRejected(
                f"the session key {session_key!r} is reserved for sessions created by the gateway", param=SESSION_HEADERS[0]
            )
        return address
    if params.user:
        # Escape colons: they have a meaning in session keys, such as group chats.
        name = quote(params.user, safe="@+=,~")
        if len(name) > MAX_USER_LENGTH:
            name = uuid5(NAMESPACE_OID, params.user).hex
        return SessionAddress(f"agent:{agent}:openai-user:{name}", agent=agent)
    # Derived from the run ID, so that a repeated Idempotency-Key finds its session and run.
    return SessionAddress(f"agent:{agent}:{OPENAI_CHANNEL}:{uuid5(NAMESPACE_OID, f'{user.pk} {run_id}')}", agent=agent)


def _choose_model(model: str) -> str:
    try:
        return choose_model(model)
    except InvalidRequest as error:
        raise RequestRejected(error.message, param=MODEL_HEADERS[0], code="model_not_found") from error


def _reject_own_tool_names(params: CompletionRequest) -> None:
    """Reject client tools with the name of a gateway tool, even if that tool is not allowed here."""
    gateway_tools = offered.load_offered_tools(wait=False).facts
    for number, tool in enumerate(params.tools):
        if tool["name"] in gateway_tools:
            raise RequestRejected(
                f"tools[{number}]: {tool['name']!r} is the name of a gateway tool; rename yours",
                param=f"tools[{number}].name",
                code="tool_name_taken",
            )


async def follow_run(runtime: Runtime, started: StartedRun) -> AsyncGenerator[RunUpdate, None]:
    """Yield the updates of a run until it ends, with keep-alives.

    If the client disconnects or loses access (AccessRevoked) before the end, stop the run, unless it should continue.
    """
    ended = False
    try:
        async with aclosing(_read_updates(runtime, started)) as updates:
            async for update in updates:
                ended = isinstance(update, RunEnded)
                yield update
    except (asyncio.CancelledError, GeneratorExit, AccessRevoked) as error:
        if started.aborts_on_disconnect and not ended and not runtime.stopping:
            runtime.host.spawn(_abort(started, CREDENTIAL_ENDED if isinstance(error, AccessRevoked) else CLIENT_LEFT))
        raise


async def _read_updates(runtime: Runtime, started: StartedRun) -> AsyncGenerator[RunUpdate, None]:
    builder = RunUpdateBuilder()
    if started.accepted.status in Run.ENDED:
        for event in await db.read(rebuild_answer_events, started.accepted.pk):
            for update in builder.take(event):
                yield update
        return
    loop = asyncio.get_running_loop()
    parked_until: float | None = None
    approval = ""
    # Skip the first event, which only says that the run was accepted.
    events = runtime.run_feeds.follow(started.accepted.pk, after=1 if started.accepted.created else 0)
    async with aclosing(events), watch_access(runtime, started.caller, started.accepted.session_id) as watch:
        while True:
            next_event = asyncio.ensure_future(anext(events))
            try:
                while not next_event.done():
                    timeout = KEEP_ALIVE_SECONDS if parked_until is None else min(KEEP_ALIVE_SECONDS, parked_until - loop.time())
                    if timeout <= 0:
                        for update in _parked_updates(started, builder.usage, approval):
                            yield update
                        return
                    await asyncio.wait({next_event, watch}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                    if watch.done():
                        await watch
                    if not next_event.done():
                        yield KeepAlive()
            finally:
                if not next_event.done():
                    next_event.cancel()
                    await asyncio.wait({next_event})
            for update in builder.take(next_event.result()):
                match update:
                    case WaitingForPeople(approval=approval):
                        parked_until = loop.time() + settings.HTTP_APPROVAL_WAIT_SECONDS
                    case RunResumed():
                        parked_until = None
                yield update
                if isinstance(update, RunEnded):
                    return


def _parked_updates(started: StartedRun, usage: CompletionUsage, approval: str) -> list[RunUpdate]:
    """End the response of a run that waits too long for a person. The run continues later, and its answer is in the session."""
    what = f"approval {approval}" if approval else "a person"
    text = (
        f"[Run {started.run_id} is waiting for {what}. It will continue after a decision; "
        f"its answer will be in session {started.accepted.session_key}.]"
    )
    return [AnswerDelta(-1, text), RunEnded("stop", usage)]


async def _abort(started: StartedRun, reason: str) -> None:
    try:
        session = await db.read(find_session, started.user, session_id=str(started.accepted.session_id))
        await db.write(request_abort, user=started.user, session=session, run_id=started.run_id, reason=reason)
    except ClawError as error:
        log.warning("could not stop the run of a disconnected client: %s", error.message, extra={"run": started.run_id})


def to_failure(ended: RunEnded) -> CompletionFailed | None:
    return CompletionFailed(*ended.failure) if ended.failure else None
