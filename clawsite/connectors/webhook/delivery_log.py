"""The delivery log: what was sent, from which address, and the outcome. Headers are never stored; bodies only if enabled.

Failed attempts are counted from the log, which is in the database, so all processes share the count.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from clawsite.connectors.webhook.models import Hook, HookDelivery
from clawsite.infra import clock
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from clawsite.infra.errors import TooManyAttempts
from clawsite.infra.text import make_storable

MAX_KEPT_BODY_BYTES = 16_384  # stored per body, if the webhook keeps bodies
MAX_FAILURES = 20  # per address
MAX_TOTAL_FAILURES = 100  # recorded, from all addresses together
FAILURE_WINDOW_SECONDS = 60
MAX_ERROR_LENGTH = 500
BATCH_SIZE = 500  # rows deleted in one transaction


@dataclass(frozen=True, slots=True)
class IncomingDelivery:
    """A delivery as received. Header names are lowercase."""

    path: str
    address: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()


def webhook_actor(hook: Hook) -> Actor:
    """The actor in the audit log: a service without an account."""
    return Actor("service", "", f"hook:{hook.slug}")


def check_failure_limit(address: str) -> None:
    """Raise TooManyAttempts for an address with 20 failed attempts in the last minute. Writes nothing."""
    since = clock.now() - dt.timedelta(seconds=FAILURE_WINDOW_SECONDS)
    unproven = _unauthenticated_since(since).filter(address=address).order_by("-received_at")
    latest = list(unproven.values_list("received_at", flat=True)[:MAX_FAILURES])
    if len(latest) == MAX_FAILURES:
        wait = (latest[-1] - since).total_seconds()
        raise TooManyAttempts("too many failed attempts; try again later", retryable=True, retry_after_ms=int(wait * 1000) + 1000)


def _unauthenticated_since(since: dt.datetime) -> QuerySet[HookDelivery]:
    return HookDelivery.objects.filter(outcome=HookDelivery.Outcome.UNAUTHORIZED, received_at__gte=since)


def build_delivery(hook: Hook, came: IncomingDelivery, outcome: HookDelivery.Outcome, status: int, **more: Any) -> HookDelivery:
    """Build a row without saving it."""
    body = ""
    if hook.keep_bodies and outcome != HookDelivery.Outcome.UNAUTHORIZED:
        body = make_storable(came.body[:MAX_KEPT_BODY_BYTES].decode(errors="replace"))
    return HookDelivery(
        hook=hook if hook.pk else None,
        path=hook.slug,
        received_at=clock.now(),
        address=came.address,
        outcome=outcome,
        status_code=status,
        size=len(came.body),
        body_digest=came.digest,
        body=body,
        **more,
    )


@transaction.atomic
def record_rejected(hook: Hook, came: IncomingDelivery, *, status: int, words: str) -> None:
    """Record a rejected delivery and the reason.

    Unauthenticated senders cannot fill the logs: an address is blocked after 20 failures per minute, at most 100 failures per
    minute are recorded in total, and the audit log, which is never deleted, only records deliveries to existing webhooks.
    """
    outcome = HookDelivery.Outcome.UNAUTHORIZED if status == 401 else HookDelivery.Outcome.REFUSED
    since = clock.now() - dt.timedelta(seconds=FAILURE_WINDOW_SECONDS)
    if (
        outcome == HookDelivery.Outcome.UNAUTHORIZED
        and _unauthenticated_since(since)[:MAX_TOTAL_FAILURES].count() == MAX_TOTAL_FAILURES
    ):
        return
    row = build_delivery(hook, came, outcome, status, error=make_storable(words)[:MAX_ERROR_LENGTH])
    row.save(force_insert=True)
    if hook.pk is None:
        return
    audit_log.record(
        "hook.refused",
        actor=webhook_actor(hook),
        subject=("hook", hook.pk),
        path=hook.slug,
        delivery=row.pk,
        status=status,
        address=came.address,
    )


def delete_old_deliveries() -> bool:
    """Delete a batch of deliveries past the retention time. Return whether there may be more."""
    if settings.HOOK_LOG_DAYS <= 0:
        return False
    before = clock.now() - dt.timedelta(days=settings.HOOK_LOG_DAYS)
    old = list(
        HookDelivery.objects.filter(received_at__lt=before).order_by("received_at").values_list("pk", flat=True)[:BATCH_SIZE]
    )
    HookDelivery.objects.filter(pk__in=old).delete()
    return len(old) == BATCH_SIZE
