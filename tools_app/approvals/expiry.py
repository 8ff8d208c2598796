"""What the clock says to open questions: a warning, and the end when nobody has answered."""

import datetime as dt

from django.db import transaction
from django.db.models import Q

from clawsite.infra import clock
from clawsite.infra.errors import Conflict
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.announce import notify_approval_changed
from tools_app.models import Approval

Status = Approval.Status
MAX_WARNING_TIME = dt.timedelta(minutes=10)  # or the last fifth of its time, whichever is shorter


def expires_soon(approval: Approval, now: dt.datetime) -> bool:
    """Whether it is time to warn: the last ten minutes, or the last fifth of its time where that is shorter."""
    left = approval.expires_at - now
    return left <= MAX_WARNING_TIME and left <= (approval.expires_at - approval.created_at) / 5


def has_due_approvals() -> bool:
    """Whether the clock has anything to say to an open question; asked every second, so it only looks."""
    now = clock.now()
    due = Q(expires_at__lte=now) | Q(warned_at__isnull=True, expires_at__lte=now + MAX_WARNING_TIME)
    return Approval.objects.filter(due, status=Status.PENDING).exists()


def expire_and_warn() -> int:
    """Expire what nobody answered and warn of what will; -> how many ended. Any number of workers may look."""
    now = clock.now()
    due = Approval.objects.filter(status=Status.PENDING, expires_at__lte=now).select_related("session", "run")
    ended = 0
    for approval in due.order_by("session_id")[:100]:
        with transaction.atomic():
            approval_requests.lock_session(approval)
            approval.refresh_from_db(fields=["expires_at"])
            if approval.expires_at > clock.now():
                continue  # somebody has extended it in this very moment
            try:
                approval_requests.close_approval(approval, Status.EXPIRED, "", by=None, reason="nobody answered in time")
                ended += 1
            except Conflict:
                continue  # answered, extended or swept by somebody else in this very moment
    soon = Approval.objects.filter(status=Status.PENDING, warned_at__isnull=True, expires_at__lte=now + MAX_WARNING_TIME)
    for approval in soon.order_by("expires_at")[:100]:
        if not expires_soon(approval, now):
            continue
        if Approval.objects.filter(pk=approval.pk, warned_at__isnull=True).update(warned_at=now):
            notify_approval_changed(approval, "expiring")
    return ended
