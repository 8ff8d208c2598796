"""Warn about approval requests that expire soon, and close expired ones."""

import datetime as dt

from django.db import transaction
from django.db.models import Q

from clawsite.infra import clock
from clawsite.infra.errors import Conflict
from clawsite.infra.reasons import Reason
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.announce import notify_approval_changed
from tools_app.models import Approval

Status = Approval.Status
MAX_WARNING_TIME = dt.timedelta(minutes=10)  # or the last fifth of its lifetime, whichever is shorter


def expires_soon(approval: Approval, now: dt.datetime) -> bool:
    """Whether to warn: in the last ten minutes, or the last fifth of the request's lifetime if that is shorter."""
    left = approval.expires_at - now
    return left <= MAX_WARNING_TIME and left <= (approval.expires_at - approval.created_at) / 5


def has_due_approvals() -> bool:
    """Whether any request must be expired or warned about. Called every second, so it only checks."""
    now = clock.now()
    due = Q(expires_at__lte=now) | Q(warned_at__isnull=True, expires_at__lte=now + MAX_WARNING_TIME)
    return Approval.objects.filter(due, status=Status.PENDING).exists()


def expire_and_warn() -> int:
    """Close expired requests and warn about those expiring soon. Returns how many were closed. Safe to run concurrently."""
    now = clock.now()
    due = Approval.objects.filter(status=Status.PENDING, expires_at__lte=now).select_related("session", "run")
    ended = 0
    for approval in due.order_by("session_id")[:100]:
        with transaction.atomic():
            approval_requests.lock_session(approval)
            approval.refresh_from_db(fields=["expires_at"])
            if approval.expires_at > clock.now():
                continue  # extended a moment ago
            try:
                approval_requests.close_approval(approval, Status.EXPIRED, "", by=None, system_reason=Reason("approval.expired"))
                ended += 1
            except Conflict:
                continue  # decided, extended or expired by another process a moment ago
    soon = Approval.objects.filter(status=Status.PENDING, warned_at__isnull=True, expires_at__lte=now + MAX_WARNING_TIME)
    for approval in soon.order_by("expires_at")[:100]:
        if not expires_soon(approval, now):
            continue
        if Approval.objects.filter(pk=approval.pk, warned_at__isnull=True).update(warned_at=now):
            notify_approval_changed(approval, "expiring")
    return ended
