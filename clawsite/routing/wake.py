"""Wake an agent: queue a system event for a session's next run, and optionally start that run now.

Webhook events are only delivered in a separate run with that webhook's limits (see sessions_app.runs.system_events).
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.routing.inbound import open_session
from sessions_app import tables
from sessions_app.keys import make_main_key
from sessions_app.models import Session, SystemEvent
from sessions_app.origin import Origin
from sessions_app.run_request import RunRequest, Wake
from sessions_app.runs import lanes, system_events
from sessions_app.runs.lifecycle import AcceptedRun, accept_run, check_may_write

WakeMode = Literal["now", "next-heartbeat"]
NOW: WakeMode = "now"

WAKE_PROMPT = (
    "You were woken by the system event above; no user has written. If it asks for something that you should do, do it. "
    "Otherwise summarize in one sentence what happened."
)

WEBHOOK_PROMPT = (
    "The content above came from a webhook; no user has written. If there is text before the marked content, follow its "
    "instructions. Otherwise summarize in one sentence what happened."
)


@dataclass(frozen=True, slots=True)
class WakeResult:
    """`outcome` is `coalesced` if the same text is already pending. `run` is the new run, if one was started."""

    session: Session
    outcome: system_events.EnqueueOutcome
    run: int | None = None
    run_id: str = ""


def open_main_session(user: User, agent: str) -> Session:
    return open_session(user, key=make_main_key(agent))


@transaction.atomic
def wake(
    user: User,
    session: Session,
    text: str,
    *,
    mode: WakeMode,
    source: str,
    hook: str = "",
) -> WakeResult:
    """Queue the text for the session's next run. With `now`, start that run unless one is already queued.

    Webhook text is queued for the webhook's own next run there. Without `now`, that run starts after the session's next run.
    """
    check_may_write(user, session)
    outcome = system_events.enqueue(session.pk, text, source=source, hook=hook)
    if mode != NOW or system_events.has_queued_run(session, hook):
        return WakeResult(session, outcome)
    accepted = _start_run(user, session, hook)
    return WakeResult(session, outcome, accepted.pk, accepted.run_id)


@transaction.atomic
def start_webhook_run(session_id: UUID, hook: str) -> None:
    """Start the run that receives a webhook's pending events, unless one is queued or the session's owner is disabled."""
    tables.lock_sessions([sql.uuid_value(session_id)])
    session = Session.objects.select_related("owner").filter(pk=session_id, deleted_at__isnull=True).first()
    has_pending = SystemEvent.objects.filter(session_id=session_id, hook=hook).exists()
    if session and has_pending and session.owner.is_active and not system_events.has_queued_run(session, hook):
        _start_run(session.owner, session, hook)


def _start_run(user: User, session: Session, hook: str) -> AcceptedRun:
    run_id = f"wake-{uuid4().hex}"
    request = RunRequest(Wake(), Origin(webhook=hook))
    prompt, lane = (WEBHOOK_PROMPT, lanes.CRON) if hook else (WAKE_PROMPT, lanes.MAIN)
    return accept_run(user=user, session=session, run_id=run_id, prompt=prompt, request=request, lane=lane)
