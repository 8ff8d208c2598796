"""The log of deliveries: what was sent, from where, and what became of it. Headers are never kept; a body only where asked for.

The log is also what guessing is measured by: it is in the database, so all processes count the same.
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

MAX_KEPT_BODY_BYTES = 16_384  # of a body, where the webhook says that bodies are kept
MAX_FAILURES = 20  # of one address
MAX_TOTAL_FAILURES = 100  # that are written down, from however many addresses
FAILURE_WINDOW_SECONDS = 60
MAX_ERROR_LENGTH = 500
BATCH_SIZE = 500  # rows deleted in one transaction


@dataclass(frozen=True, slots=True)
class IncomingDelivery:
    """A delivery as it came in. Header names are in small letters."""

    path: str
    address: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()


def webhook_actor(hook: Hook) -> Actor:
    """As the audit log names it: nobody of ours."""
    return Actor("service", "", f"hook:{hook.slug}")


def check_failure_limit(address: str) -> None:
    """TooManyAttempts for an address that has just failed to prove itself twenty times. Reads only."""
    since = clock.now() - dt.timedelta(seconds=FAILURE_WINDOW_SECONDS)
    unproven = _unauthenticated_since(since).filter(address=address).order_by("-received_at")
    latest = list(unproven.values_list("received_at", flat=True)[:MAX_FAILURES])
    if len(latest) == MAX_FAILURES:
        wait = (latest[-1] - since).total_seconds()
        raise TooManyAttempts("too many failed attempts; try again later", retryable=True, retry_after_ms=int(wait * 1000) + 1000)


def _unauthenticated_since(since: dt.datetime) -> QuerySet[HookDelivery]:
    return HookDelivery.objects.filter(outcome=HookDelivery.Outcome.UNAUTHORIZED, received_at__gte=since)


def build_delivery(hook: Hook, came: IncomingDelivery, outcome: HookDelivery.Outcome, status: int, **more: Any) -> HookDelivery:
    """A row that is not stored yet."""
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
    """Note what was not taken, and why.

    Strangers cannot fill the logs: after twenty a minute an address is not even looked at, of all together no more than a hundred a
    minute are noted, and the audit log, which keeps everything, has only what was meant for a webhook that exists.
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
    """Delete some of what is older than the log is kept; -> whether there may be more."""
    if settings.HOOK_LOG_DAYS <= 0:
        return False
    before = clock.now() - dt.timedelta(days=settings.HOOK_LOG_DAYS)
    old = list(
        HookDelivery.objects.filter(received_at__lt=before).order_by("received_at").values_list("pk", flat=True)[:BATCH_SIZE]
    )
    HookDelivery.objects.filter(pk__in=old).delete()
    return len(old) == BATCH_SIZE
