"""Sessions that programs made for a single request (`/v1` without a session), forgotten for good some days after their last run.

Kept are those that anybody made a conversation of their own: pinned, shared, or with sessions that came of them; and those in
which people were asked about a command, since what was asked and answered would go with them.
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

MAX_SESSIONS = 1000  # looked at in one round
BATCH_SIZE = 200  # rows in one transaction, for which other writers wait


def list_expired(before: dt.datetime) -> list[uuid.UUID]:
    """Those whose last run ended before that moment, oldest first."""
    return list(_expired_sessions(before).order_by("updated_at").values_list("pk", flat=True)[:MAX_SESSIONS])


def _expired_sessions(before: dt.datetime) -> SessionQuerySet:
    """A run moves `updated_at` when it is accepted and when it ends."""
    this = OuterRef("pk")
    unfinished = Run.objects.filter(session=this).exclude(status__in=Run.ENDED)
    going_on = Command.objects.filter(session=this, status=Command.Status.RUNNING)
    asked = Approval.objects.filter(session=this)
    return Session.objects.filter(channel=OPENAI_CHANNEL, updated_at__lt=before).exclude(
        Exists(unfinished)
        | Exists(going_on)
        | Exists(asked)
        | Exists(Session.objects.filter(parent=this))
        | Exists(SessionMember.objects.filter(session=this))
        | Exists(SessionMark.objects.filter(session=this, pinned_at__isnull=False))
    )


@transaction.atomic
def hide_session(session_id: uuid.UUID, before: dt.datetime) -> bool:
    """From here on nobody finds it; -> whether it may go. Looked at again, since a message may have come meanwhile."""
    Session.objects.select_for_update().filter(pk=session_id).first()
    still = _expired_sessions(before).filter(pk=session_id)
    return bool(still.update(deleted_at=Coalesce("deleted_at", clock.now())))


def delete_batch(session_id: uuid.UUID) -> bool:
    """Delete some of a hidden session's rows, in the end the session itself; -> whether there is more."""
    for rows in (Event.objects, TranscriptEntry.objects):
        some = list(rows.filter(session=session_id).order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE])
        if some:
            rows.filter(pk__in=some).delete()
            return True
    Session.objects.filter(pk=session_id).delete()
    return False
