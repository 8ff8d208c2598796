"""Permanently delete sessions created for a single API request (`/v1` without a session) some days after their last run.

Sessions that are pinned, shared or have child sessions are kept, and so are those with approval requests, whose history would
be lost with them.
"""

import datetime as dt
import uuid

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Coalesce

from clawsite.infra import clock
from sessions_app.keys import OPENAI_CHANNEL
from sessions_app.models import Event, Run, Session, SessionMark, SessionMember, TranscriptEntry
from sessions_app.models.session import SessionQuerySet
from tools_app.models import Approval, Command

MAX_SESSIONS = 1000  # per round
BATCH_SIZE = 200  # rows per transaction; other writers wait for it


def list_expired(before: dt.datetime) -> list[uuid.UUID]:
    """Return sessions whose last run ended before `before`, oldest first."""
    return list(_expired_sessions(before).order_by("updated_at").values_list("pk", flat=True)[:MAX_SESSIONS])


def _expired_sessions(before: dt.datetime) -> SessionQuerySet:
    """Filter by `updated_at`, which a run updates when it is accepted and when it ends."""
    this = OuterRef("pk")
    unfinished = Run.objects.filter(session=this).exclude(status__in=Run.ENDED)
    running_commands = Command.objects.filter(session=this, status=Command.Status.RUNNING)
    approvals = Approval.objects.filter(session=this)
    return Session.objects.filter(channel=OPENAI_CHANNEL, updated_at__lt=before).exclude(
        Exists(unfinished)
        | Exists(running_commands)
        | Exists(approvals)
        | Exists(Session.objects.filter(parent=this))
        | Exists(SessionMember.objects.filter(session=this))
        | Exists(SessionMark.objects.filter(session=this, pinned_at__isnull=False))
    )


@transaction.atomic
def hide_session(session_id: uuid.UUID, before: dt.datetime) -> bool:
    """Hide a session and return whether it can be deleted. Checks again, because a new message may have arrived."""
    Session.objects.select_for_update().filter(pk=session_id).first()
    still = _expired_sessions(before).filter(pk=session_id)
    return bool(still.update(deleted_at=Coalesce("deleted_at", clock.now())))


def delete_batch(session_id: uuid.UUID) -> bool:
    """Delete some of a hidden session's rows, finally the session itself; return whether there is more to delete."""
    for rows in (Event.objects, TranscriptEntry.objects):
        some = list(rows.filter(session=session_id).order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE])
        if some:
            rows.filter(pk__in=some).delete()
            return True
    Session.objects.filter(pk=session_id).delete()
    return False
