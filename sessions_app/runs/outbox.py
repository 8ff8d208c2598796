"""Outgoing messages for connectors: written at the end of a run or by a tool call, leased to one deliverer, delivered once."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from clawsite.infra import clock, sql
from sessions_app.keys import OPENAI_CHANNEL
from sessions_app.models import Outbox

MAX_ATTEMPTS = 5
# Channels whose clients read the event stream directly, so nothing needs delivery.
LIVE_CHANNELS = {"", "webchat", OPENAI_CHANNEL}


def enqueue(*, run_pk: int, session_id: UUID, channel: str, payloads: Sequence[dict[str, Any]], call_id: str = "") -> None:
    """Store the parts of a reply, or of a message sent by a tool call; a part that already exists is not stored again."""
    if channel in LIVE_CHANNELS:
        return
    fields = {"run_id": run_pk, "call_id": call_id, "session_id": session_id, "channel": channel, "created_at": clock.now()}
    rows = [Outbox(part=part, payload=payload, **fields) for part, payload in enumerate(payloads)]
    Outbox.objects.bulk_create(rows, ignore_conflicts=True)


@transaction.atomic
def lease_pending(channel: str, *, most: int = 20, lease_seconds: float = 60) -> list[Outbox]:
    """Lease undelivered replies of a channel, oldest first; a deliverer that dies loses its lease."""
    now = sql.db_now()
    due = Outbox.objects.select_for_update().filter(
        Q(lease_until__isnull=True) | Q(lease_until__lt=now), channel=channel, status=Outbox.Status.PENDING
    )
    ids = list(due.order_by("id").values_list("pk", flat=True)[:most])
    Outbox.objects.filter(pk__in=ids).update(
        lease_until=now + lease_seconds, lease_token=F("lease_token") + 1, attempts=F("attempts") + 1
    )
    return list(Outbox.objects.filter(pk__in=ids).order_by("id"))


@transaction.atomic
def mark_delivered(row: Outbox) -> bool:
    """Mark as delivered, once; return False if another deliverer holds it by now."""
    leased = Outbox.objects.filter(pk=row.pk, lease_token=row.lease_token, status=Outbox.Status.PENDING)
    return bool(leased.update(status=Outbox.Status.DELIVERED, delivered_at=clock.now(), lease_until=None))


@transaction.atomic
def mark_failed(row: Outbox, error: str) -> None:
    """Return it for another attempt, or give up after the fifth."""
    status = Outbox.Status.FAILED if row.attempts >= MAX_ATTEMPTS else Outbox.Status.PENDING
    Outbox.objects.filter(pk=row.pk, lease_token=row.lease_token).update(status=status, error=error, lease_until=None)
