"""System events: text that a session's next run receives before its prompt. They are stored as rows and delivered exactly once.

The claim that starts a run deletes the rows and writes their text into the transcript in one transaction (claim_sql), so a
crashing worker neither loses nor repeats one.

Webhook events are untrusted text. Only runs with that webhook's limits receive them (`Origin.webhook` in the request), and
such runs receive nothing else: an ordinary run, which has all of its owner's tools, leaves them queued.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Literal
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Left
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.errors import InvalidRequest, NotFound
from sessions_app import tables
from sessions_app.models import Run, Session, SystemEvent
from sessions_app.run_request import takes_events_of

MAX_PENDING = 20  # per session and webhook; the oldest are dropped
MAX_TEXT_LENGTH = 40_000  # characters of one event. Never truncated here: that would cut off the marker that ends untrusted text

EnqueueOutcome = Literal["queued", "coalesced"]


@transaction.atomic
def enqueue(session_id: UUID, text: str, *, source: str, hook: str = "") -> EnqueueOutcome:
    """Queue text for the session's next run, or the next one for this webhook. Repeating the last text adds no event."""
    if not text.strip() or len(text) > MAX_TEXT_LENGTH:
        raise InvalidRequest(_("The event text must have 1 to %(most)d characters.") % {"most": MAX_TEXT_LENGTH})
    tables.lock_sessions([sql.uuid_value(session_id)])  # before any run is claimed or accepted there, in the usual lock order
    if not Session.objects.filter(pk=session_id, deleted_at__isnull=True).exists():
        raise NotFound(_("The session was deleted."))
    waiting = SystemEvent.objects.filter(session_id=session_id, hook=hook).order_by("pk")
    last = waiting.last()
    if last is not None and last.text == text:
        return "coalesced"
    SystemEvent.objects.create(session_id=session_id, text=text, source=source[:80], hook=hook, created_at=clock.now())
    newest_pks = list(waiting.values_list("pk", flat=True))[-MAX_PENDING:]
    waiting.filter(pk__lt=newest_pks[0]).delete()
    return "queued"


def has_queued_run(session: Session, hook: str = "") -> bool:
    """Return whether a queued run will receive events of this webhook, or those without a webhook."""
    return Run.objects.filter(takes_events_of(hook), session=session, status=Run.Status.ACCEPTED).exists()


def list_undelivered(limit: int) -> list[tuple[UUID, str]]:
    """List sessions and webhooks whose events are pending although a run has ended since and none is unfinished."""
    ended_since = Run.objects.filter(session=OuterRef("session"), ended_at__gt=OuterRef("created_at"), started_at__isnull=False)
    busy = Run.objects.filter(session=OuterRef("session"), status__in=Run.UNFINISHED)
    rows = SystemEvent.objects.exclude(hook="").filter(Exists(ended_since), ~Exists(busy), session__deleted_at__isnull=True)
    return list(rows.values_list("session_id", "hook").distinct()[:limit])


def list_pending_texts(user: User, *, limit: int, characters: int) -> list[str]:
    """Return the beginnings of pending events in a user's own sessions, oldest first."""
    rows = SystemEvent.objects.filter(session__owner=user, session__deleted_at__isnull=True).order_by("pk")
    return list(rows.values_list(Left("text", characters), flat=True)[:limit])


def format_for_model(events: Iterable[tuple[str, dt.datetime]]) -> str:
    """Format events for the model, one after the other."""
    return "\n".join(f"System: [{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC] {text}" for text, moment in events)
