"""From an incoming message to a queued run: sender, agent, session. `receive` has one line per stage.

All entry points use it: the socket, HTTP, connectors. A stage that ends processing raises an exception named after the reason.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from agents.prepare.model_choice import choose_model, find_model, is_provider
from agents.selectors import check_agent
from clawsite.accounts.models import User
from clawsite.infra import db, sql
from clawsite.infra.errors import InvalidRequest
from clawsite.infra.observability import tracing
from clawsite.routing.attachments import InlineFile, store_files
from clawsite.routing.directives import CommandInvocation, MessageOverrides, parse_directive
from clawsite.routing.supplied_history import SuppliedMessage, store_message_files, to_entries
from sessions_app.keys import DEFAULT_AGENT, make_chat_key, make_main_key, parse_key
from sessions_app.models import Session
from sessions_app.origin import Origin
from sessions_app.run_request import ORDINARY_REQUEST, RunRequest, ToolResults
from sessions_app.runs import lanes
from sessions_app.runs.lifecycle import AcceptedRun, accept_run
from sessions_app.sessions import attachments
from sessions_app.sessions.service import create_session, find_own_session_id, find_session, insert_first_entries


@dataclass(frozen=True, slots=True)
class SessionAddress:
    """The target session: by ID, or by key among the user's own; without either, the agent's main session."""

    key: str = ""
    session_id: str = ""
    agent: str = ""

    @classmethod
    def of_chat(cls, origin: Origin, agent: str = DEFAULT_AGENT) -> "SessionAddress":
        """Return the session of the chat that a message comes from."""
        key = make_chat_key(agent, origin.channel, peer=origin.peer, group=origin.group, thread=origin.thread)
        return cls(str(key), agent=agent)

    def own_key(self) -> str:
        if not self.key:
            return make_main_key(str(parse_key("main", default_agent=self.agent or DEFAULT_AGENT).agent))
        return str(parse_key(self.key, default_agent=self.agent or DEFAULT_AGENT))


@dataclass(frozen=True, slots=True)
class Inbound:
    """An incoming message. `run_id` is the sender's idempotency key; files are IDs of uploads, or included here.

    `request` has the origin, which connectors fill in, and the settings of this message. A `verbatim` message is never a command.
    `past` and `channel` apply to a session created by this message.
    """

    user: User
    text: str
    run_id: str
    to: SessionAddress
    request: RunRequest = ORDINARY_REQUEST
    lane: str = lanes.MAIN
    timeout_seconds: float | None = None
    files: Sequence[str | InlineFile] = ()
    verbatim: bool = False  # don't parse commands and options
    past: Sequence[SuppliedMessage] = ()
    channel: str = ""


class StopRequested(Exception):
    """Not a message for the agent: the sender wants to stop it."""


class CommandRequested(Exception):
    """Not a message for the agent: the sender wants to run a command."""

    def __init__(self, command: CommandInvocation) -> None:
        super().__init__(command.name)
        self.command = command


async def receive(inbound: Inbound) -> AcceptedRun:
    """Queue a run for the message, once per run ID."""
    inbound = inbound if inbound.verbatim else await _apply_directive(inbound)
    _check_has_content(inbound)
    inbound = await _store_files(_with_trace(inbound))
    if not sql.has_row_locks() and not inbound.to.session_id:  # saves a thread hop: the write needs no lock order
        return await db.write(_accept_at_key, inbound)
    session = await db.read(_find_target_session, inbound.user, inbound.to)
    if session is None:
        return await db.write(_open_and_accept, inbound)
    return await db.write(_accept, inbound, session, key=str(session.id))


async def receive_in_new_session(inbound: Inbound, create: Callable[[], Session], *, key: str = "") -> tuple[Session, AcceptedRun]:
    """Create a session and queue a run for its first message: both, or neither. `key` is passed to db.write."""
    _check_has_content(inbound)
    return await db.write(_create_and_accept, _with_trace(inbound), create, key=key)


def _create_and_accept(inbound: Inbound, create: Callable[[], Session]) -> tuple[Session, AcceptedRun]:
    session = create()
    return session, _accept(inbound, session)


def _find_target_session(user: User, address: SessionAddress) -> Session | None:
    """Find the target session, with only the fields needed for queueing."""
    if address.session_id:
        return find_session(user, session_id=address.session_id)
    key = address.own_key()
    session_id = find_own_session_id(user.pk, key)
    return Session(id=session_id, owner_id=user.pk, key=key) if session_id else None


def find_session_or_none(user: User, address: SessionAddress) -> Session | None:
    """Find the user's own session by key, or return None. An unknown ID is an error, because the server issues IDs."""
    if address.session_id:
        return find_session(user, session_id=address.session_id)
    return Session.objects.filter(owner=user, key=address.own_key(), deleted_at__isnull=True).first()


def open_session(user: User, *, key: str | None = None, agent: str = DEFAULT_AGENT, **fields: Any) -> Session:
    """Return the user's session with that key, creating it if needed; without a key, a new one. The agent must exist."""
    if key:
        agent = parse_key(key).agent
        if session_id := find_own_session_id(user.pk, key):
            return Session.objects.get(pk=session_id)
    check_agent(agent)
    return create_session(user, key=key, agent=agent, **fields)


async def _apply_directive(inbound: Inbound) -> Inbound:
    """Strip the directive and move its options to the run. Commands end here."""
    match parse_directive(inbound.text):
        case CommandInvocation("stop"):
            raise StopRequested
        case CommandInvocation() as command:
            raise CommandRequested(command)
        case MessageOverrides(text, thinking=level) if level:
            return replace(inbound, text=text, request=replace(inbound.request, thinking=level))
        case MessageOverrides(text, model=typed):
            model = await db.read(_resolve_model, typed, by_name=inbound.text.startswith("@"))
            if model is not None:
                return replace(inbound, text=text, request=replace(inbound.request, model=model))
    return inbound


def _resolve_model(typed: str, *, by_name: bool) -> str | None:
    """Return the model's ID. A sentence may also start with `@word`: return None unless it names a model or provider."""
    if by_name and find_model(typed) is None and not ("/" in typed and is_provider(typed.partition("/")[0])):
        return None
    return choose_model(typed)


def _with_trace(inbound: Inbound) -> Inbound:
    trace = tracing.current_traceparent()
    return replace(inbound, request=replace(inbound.request, traceparent=trace)) if trace else inbound


def _check_has_content(inbound: Inbound) -> None:
    if not inbound.text.strip() and not inbound.files and not isinstance(inbound.request.kind, ToolResults):
        raise InvalidRequest(_("The message is empty."))
    if len(inbound.files) > attachments.MAX_PER_MESSAGE:
        raise InvalidRequest(_("A message can have at most %(most)d attachments.") % {"most": attachments.MAX_PER_MESSAGE})


async def _store_files(inbound: Inbound) -> Inbound:
    if not inbound.files and not inbound.past:
        return inbound
    files = await store_files(inbound.user, inbound.files)
    return replace(inbound, files=files, past=await store_message_files(inbound.user, inbound.past))


def _accept_at_key(inbound: Inbound) -> AcceptedRun:
    session = _find_target_session(inbound.user, inbound.to)
    return _accept(inbound, session) if session else _open_and_accept(inbound)


def _open_and_accept(inbound: Inbound) -> AcceptedRun:
    """Create the session with its first message."""
    key = inbound.to.own_key()
    check_agent(parse_key(key).agent)
    channel = inbound.channel or inbound.request.origin.channel
    session = create_session(inbound.user, key=key, **({"channel": channel} if channel else {}))
    if inbound.past and not session.cursor:
        insert_first_entries(session, to_entries(inbound.user, session, inbound.past))
    return _accept(inbound, session)


def _accept(inbound: Inbound, session: Session) -> AcceptedRun:
    request = inbound.request
    if inbound.files:
        ids = [file for file in inbound.files if isinstance(file, str)]
        request = replace(request, attachments=tuple(attachments.claim_attachments(inbound.user, session, ids)))
    return accept_run(
        user=inbound.user,
        session=session,
        run_id=inbound.run_id,
        prompt=inbound.text,
        request=request,
        lane=inbound.lane,
        timeout_seconds=inbound.timeout_seconds,
    )
