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
from clawsite.api.http.long_requests import NoLongerTheirs, watched
from clawsite.api.openai.completion_request import Wish
from clawsite.api.openai.errors import Refused, RunFailed
from clawsite.api.openai.models import agent_meant
from clawsite.api.openai.run_updates import Ended, GoesOn, Happening, Said, Silence, Telling, Usage, Waits
from clawsite.gateway.server.runtime import Runtime
from clawsite.gateway.server.session_address import address_of
from clawsite.infra import db
from clawsite.infra.errors import ClawError, InvalidRequest, NotFound
from clawsite.routing.inbound import Address, Inbound, receive
from sessions_app.keys import OPENAI, parse_key
from sessions_app.models import Run
from sessions_app.runs.answer import own_run, told_again
from sessions_app.runs.client_tools import RESULTS, TOOLS
from sessions_app.runs.lifecycle import LONGEST_RUN_ID, Accepted, request_abort
from sessions_app.sessions.service import find_session
from tools_app.sources import offered

log = logging.getLogger(__name__)

SESSION_HEADERS = ("x-clawsite-session-key", "x-openclaw-session-key")
MODEL_HEADERS = ("x-clawsite-model", "x-openclaw-model")
RESERVED = ("subagent", "cron", "hook")  # sessions that others than people begin
LONGEST_USER = 300  # characters in a key
SILENCE_SECONDS = 15.0  # proxies close what is silent for 30 to 60
CLIENT_LEFT = "client-left"
PUT_OUT = "credential-ended"


@dataclass(frozen=True, slots=True)
class Started:
    """A run, and who asked for it."""

    who: Caller
    accepted: Accepted
    agent: str
    aborts: bool  # when the client goes away

    @property
    def user(self) -> User:
        return self.who.user

    @property
    def run_id(self) -> str:
        return self.accepted.run_id

    @property
    def created(self) -> int:
        return self.accepted.accepted_at_ms // 1000


async def start(request: HttpRequest, who: Caller, wish: Wish) -> Started:
    """Queue the run."""
    user = who.user
    key = _idempotency_key(request)
    run_id = key or uuid4().hex
    agent = agent_meant(request, wish.model)
    to = await _session_meant(request, user, wish, agent, run_id)
    fresh = to.key.startswith(f"agent:{agent}:{OPENAI}:")
    options = _options(wish)
    if model := next((value for name in MODEL_HEADERS if (value := request.headers.get(name))), ""):
        options["model"] = await db.read(_chosen, model)
    if wish.tools:
        await db.read(_refuse_names_of_ours, wish)
    inbound = Inbound(
        user,
        wish.text,
        run_id,
        to,
        options,
        files=wish.files,
        verbatim=True,
        past=wish.past if fresh else (),
        channel=OPENAI if fresh else "",
    )
    try:
        accepted = await receive(inbound)
    except InvalidRequest as error:
        if (error.details or {}).get("code") == "UNKNOWN_TOOL_CALL":
            raise Refused(error.message, param="messages", code="unknown_tool_call") from error
        raise
    aborts = settings.HTTP_ABORT_ON_DISCONNECT and not key and accepted.created
    return Started(who, accepted, agent, aborts)


def _idempotency_key(request: HttpRequest) -> str:
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > LONGEST_RUN_ID:
        raise Refused(f"Idempotency-Key has at most {LONGEST_RUN_ID} characters", param="Idempotency-Key", code="invalid_value")
    return key


async def _session_meant(request: HttpRequest, user: User, wish: Wish, agent: str, run_id: str) -> Address:
    """That of the earlier response, of the header, of the body's `user`; else one made for this request alone."""
    if wish.previous:
        try:
            run = await db.read(own_run, user, wish.previous.removeprefix("resp_"))
        except NotFound:
            words = f"previous response {wish.previous!r} was not found"
            raise Refused(words, param="previous_response_id", code="previous_response_not_found") from None
        return Address(session_id=str(run.session_id), agent=run.session.agent)
    if named := next((value for name in SESSION_HEADERS if (value := request.headers.get(name))), ""):
        address = address_of(named, None, agent)
        if not address.session_id and parse_key(named, default_agent=agent).kind in RESERVED:
            raise Refused(f"the session key {named!r} is reserved: its sessions are begun by the gateway", param=SESSION_HEADERS[0])
        return address
    if wish.user:
        # A colon would give the key a meaning of its own, such as that of a group chat.
        name = quote(wish.user, safe="@+=,~")
        if len(name) > LONGEST_USER:
            name = uuid5(NAMESPACE_OID, wish.user).hex
        return Address(f"agent:{agent}:openai-user:{name}", agent=agent)
    # By the run's id: the same Idempotency-Key again finds its session, and with it its run.
    return Address(f"agent:{agent}:{OPENAI}:{uuid5(NAMESPACE_OID, f'{user.pk} {run_id}')}", agent=agent)


def _options(wish: Wish) -> dict[str, Any]:
    wished: dict[str, Any] = {
        "extraSystemPrompt": wish.system,
        "thinking": wish.thinking,
        "parameters": wish.parameters,
        TOOLS: list(wish.tools),
        RESULTS: list(wish.results),
    }
    return {name: value for name, value in wished.items() if value}


def _chosen(model: str) -> str:
    try:
        return choose_model(model)
    except InvalidRequest as error:
        raise Refused(error.message, param=MODEL_HEADERS[0], code="model_not_found") from error


def _refuse_names_of_ours(wish: Wish) -> None:
    """A tool of the caller never stands for one of ours, whether that is allowed here or not."""
    ours = offered.current(wait=False).facts
    for number, tool in enumerate(wish.tools):
        if tool["name"] in ours:
            raise Refused(
                f"tools[{number}]: {tool['name']!r} is a tool of the gateway itself; give yours another name",
                param=f"tools[{number}].name",
                code="tool_name_taken",
            )


async def follow(runtime: Runtime, started: Started) -> AsyncGenerator[Happening, None]:
    """What happens, to the end; with signs of life in between. A caller who leaves before it stops the run, if that is wished.

    So does one who may not have the rest: NoLongerTheirs.
    """
    ended = False
    try:
        async with aclosing(_happenings(runtime, started)) as happenings:
            async for happening in happenings:
                ended = isinstance(happening, Ended)
                yield happening
    except (asyncio.CancelledError, GeneratorExit, NoLongerTheirs) as left:
        if started.aborts and not ended and not runtime.stopping:
            runtime.spawn(_abort(started, PUT_OUT if isinstance(left, NoLongerTheirs) else CLIENT_LEFT))
        raise


async def _happenings(runtime: Runtime, started: Started) -> AsyncGenerator[Happening, None]:
    telling = Telling()
    if started.accepted.status in Run.ENDED:
        for event in await db.read(told_again, started.accepted.pk):
            for happening in telling.take(event):
                yield happening
        return
    loop = asyncio.get_running_loop()
    parked_until: float | None = None
    approval = ""
    # The first event is the acceptance, which nobody needs to be told.
    events = runtime.run_feeds.follow(started.accepted.pk, after=1 if started.accepted.created else 0)
    async with aclosing(events), watched(runtime, started.who, started.accepted.session_id) as watch:
        while True:
            coming = asyncio.ensure_future(anext(events))
            try:
                while not coming.done():
                    patience = SILENCE_SECONDS if parked_until is None else min(SILENCE_SECONDS, parked_until - loop.time())
                    if patience <= 0:
                        for happening in _parked(started, telling.usage, approval):
                            yield happening
                        return
                    await asyncio.wait({coming, watch}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                    if watch.done():
                        await watch
                    if not coming.done():
                        yield Silence()
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait({coming})
            for happening in telling.take(coming.result()):
                match happening:
                    case Waits(approval=approval):
                        parked_until = loop.time() + settings.HTTP_APPROVAL_WAIT_SECONDS
                    case GoesOn():
                        parked_until = None
                yield happening
                if isinstance(happening, Ended):
                    return


def _parked(started: Started, usage: Usage, approval: str) -> list[Happening]:
    """People take longer than a request can wait. The run goes on when they have answered, and its end is in the session."""
    what = f"approval {approval}" if approval else "a person"
    words = (
        f"[Run {started.run_id} is waiting for {what}. It goes on when that is decided; "
        f"its answer will be in session {started.accepted.session_key}.]"
    )
    return [Said(-1, words), Ended("stop", usage)]


async def _abort(started: Started, reason: str) -> None:
    try:
        session = await db.read(find_session, started.user, session_id=str(started.accepted.session_id))
        await db.write(request_abort, user=started.user, session=session, run_id=started.run_id, reason=reason)
    except ClawError as error:
        log.warning("a run that nobody listens to any more could not be stopped: %s", error.message, extra={"run": started.run_id})


def failure_of(ended: Ended) -> RunFailed | None:
    return RunFailed(*ended.failure) if ended.failure else None
