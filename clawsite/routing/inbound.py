"""From somebody's words to a queued run: whose they are, for which agent, in which session. One line a stage.

Every way in passes here: the socket, HTTP, connectors. A stage that ends the journey raises an exception named after why.
"""

from dataclasses import dataclass, field
from typing import Any

from agents.selectors import find_agent
from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from sessions_app import lanes
from sessions_app.keys import DEFAULT_AGENT, main_key, parse_key
from sessions_app.models import Session
from sessions_app.runs import Accepted, accept_run
from sessions_app.sessions import create_session, find_session, own_session_id

STOP = "/stop"


@dataclass(frozen=True, slots=True)
class Address:
    """Which session is meant: by its id, or by its key among one's own; without either, the agent's main session."""

    key: str = ""
    session_id: str = ""
    agent: str = ""

    def own_key(self) -> str:
        if not self.key:
            return main_key(str(parse_key("main", default_agent=self.agent or DEFAULT_AGENT).agent))
        return str(parse_key(self.key, default_agent=self.agent or DEFAULT_AGENT))


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message on its way in. `run_id` is the sender's idempotency key."""

    user: User
    text: str
    run_id: str
    to: Address
    options: dict[str, Any] = field(default_factory=dict)
    lane: str = lanes.MAIN
    timeout_seconds: float | None = None


class StopAsked(Exception):
    """Not a message for the agent: the sender wants it to stop."""


async def receive(inbound: Inbound) -> Accepted:
    """Queue a run for the message, once for each run id."""
    _has_words(inbound)
    _is_no_command(inbound)
    session = await db.read(_addressee, inbound.user, inbound.to)
    if session is None:
        return await db.write(_open_and_accept, inbound)
    return await db.write(_accept, inbound, session, key=str(session.id))


def _addressee(user: User, address: Address) -> Session | None:
    """The session to queue in, with only what queueing needs filled in."""
    if address.session_id:
        return find_session(user, session_id=address.session_id)
    key = address.own_key()
    session_id = own_session_id(user.pk, key)
    return Session(id=session_id, owner_id=user.pk, key=key) if session_id else None


def find_or_none(user: User, address: Address) -> Session | None:
    """One's own session of that key, if there is one. An id must exist: it was given out by us."""
    if address.session_id:
        return find_session(user, session_id=address.session_id)
    return Session.objects.filter(owner=user, key=address.own_key(), deleted_at__isnull=True).first()


def open_session(user: User, *, key: str | None = None, agent: str = DEFAULT_AGENT, **fields: Any) -> Session:
    """One's own session of that key, made if it is not there; without a key a new one. An agent that does not exist gets none."""
    if key:
        agent = parse_key(key).agent
        if session := Session.objects.filter(owner=user, key=key, deleted_at__isnull=True).first():
            return session
    find_agent(agent)
    return create_session(user, key=key, agent=agent, **fields)


def _has_words(inbound: Inbound) -> None:
    if not inbound.text.strip():
        raise InvalidRequest("the message is empty")


def _is_no_command(inbound: Inbound) -> None:
    if inbound.text.strip().lower() == STOP:
        raise StopAsked


def _open_and_accept(inbound: Inbound) -> Accepted:
    """The first message makes the session."""
    return _accept(inbound, open_session(inbound.user, key=inbound.to.own_key()))


def _accept(inbound: Inbound, session: Session) -> Accepted:
    return accept_run(
        user=inbound.user,
        session=session,
        run_id=inbound.run_id,
        prompt=inbound.text,
        options=inbound.options,
        lane=inbound.lane,
        timeout_seconds=inbound.timeout_seconds,
    )
