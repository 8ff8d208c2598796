"""Waking an agent: something has happened that a session's next run should be told, and perhaps that run is to start now.

What a webhook tells is told in a run of its own, with the limits of that webhook, and in no other (sessions_app.runs.system_events).
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.routing.inbound import open_session
from sessions_app import tables
from sessions_app.keys import main_key
from sessions_app.models import Session, SystemEvent
from sessions_app.origin import HOOK
from sessions_app.runs import lanes, system_events
from sessions_app.runs.lifecycle import Accepted, accept_run, may_write

Mode = Literal["now", "next-heartbeat"]
NOW: Mode = "now"

PROMPT = (
    "A system event woke you; it stands above, and nobody else has written. If it asks for something that you should do, do it. "
    "Otherwise say in one sentence what has happened."
)

HOOK_PROMPT = (
    "A webhook brought what stands above, and nobody else has written. If there are words before the marked content, do what they "
    "ask for. Otherwise say in one sentence what has happened."
)


@dataclass(frozen=True, slots=True)
class Woken:
    """`outcome` is `coalesced` when the same words wait already. `run` is the new run, if one had to be started."""

    session: Session
    outcome: system_events.Outcome
    run: int | None = None
    run_id: str = ""


def main_session(user: User, agent: str) -> Session:
    return open_session(user, key=main_key(agent))


@transaction.atomic
def wake(
    user: User,
    session: Session,
    text: str,
    *,
    mode: Mode,
    source: str,
    hook: str = "",
) -> Woken:
    """Leave the words for the session's next run. With `now` that run is started, unless one waits there to start anyway.

    Words of a webhook are left for its own next run there. Without `now` that one starts after the next run of the session.
    """
    may_write(user, session)
    outcome = system_events.enqueue(session.pk, text, source=source, hook=hook)
    if mode != NOW or system_events.will_be_told(session, hook):
        return Woken(session, outcome)
    accepted = _start(user, session, hook)
    return Woken(session, outcome, accepted.pk, accepted.run_id)


@transaction.atomic
def tell_now(session_id: UUID, hook: str) -> None:
    """Start the run that is told what a webhook has left in a session, unless one waits to start, or its owner cannot have any."""
    tables.lock_sessions([sql.uuid_value(session_id)])
    session = Session.objects.select_related("owner").filter(pk=session_id, deleted_at__isnull=True).first()
    waits = SystemEvent.objects.filter(session_id=session_id, hook=hook).exists()
    if session and waits and session.owner.is_active and not system_events.will_be_told(session, hook):
        _start(session.owner, session, hook)


def _start(user: User, session: Session, hook: str) -> Accepted:
    run_id = f"wake-{uuid4().hex}"
    if not hook:
        return accept_run(user=user, session=session, run_id=run_id, prompt=PROMPT)
    limits = {HOOK: hook}
    return accept_run(user=user, session=session, run_id=run_id, prompt=HOOK_PROMPT, options=limits, lane=lanes.CRON)
