"""Notify clients that an approval request was created, changed or decided: approvers, and those who follow its session.

A bus message is only a hint; the row has the current state. A client that missed an event finds the request in the list of
pending ones.
"""

import logging
from dataclasses import dataclass
from uuid import UUID

from clawsite.accounts.models import User
from clawsite.gateway.delivery.audience import Audience
from clawsite.gateway.protocol.approvals.records import ApprovalRecord, build_event, find_record
from clawsite.gateway.protocol.approvals.snapshots import build_session_event
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from clawsite.infra.errors import ClawError
from clawsite.infra.waits import Waiters
from sessions_app.keys import make_shared_key
from tools_app.approvals.announce import ApprovalChanged
from tools_app.models import Approval

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0  # in case a bus message was lost
SESSION_CHANGES = ("requested", "extended", "resolved")  # other changes don't affect session events


@dataclass(frozen=True, slots=True)
class _SessionNotice:
    """Events for those who follow the session of an approval request; owner and others use different session keys."""

    id: str
    owner: int
    key: str
    for_owner: OutgoingEvent
    for_others: OutgoingEvent


async def notify_approval(audience: Audience, message: ApprovalChanged) -> None:
    """Notify clients connected to this process about the approval request in a bus message."""
    if not audience:
        return
    try:
        notices = await db.read(_build_notices, message.id, message.change)
    except ClawError as error:
        log.warning("approval notification failed: %s", error.message)
        return
    if notices is None:
        return
    for_approvers, session = notices
    for connection in audience:
        if Scope.APPROVALS in connection.authority.scopes:
            connection.deliver(for_approvers)
    if session is None:
        return
    for connection in audience.connections_of_session(session.id, session.owner, session.key):
        owns = connection.user_pk == session.owner
        if connection.subscriptions.wants_approvals(session.id, session.key if owns else None):
            connection.deliver(session.for_owner if owns else session.for_others)


def _build_notices(approval_id: str, change: str) -> tuple[OutgoingEvent, _SessionNotice | None] | None:
    """Return None if the approval request no longer exists."""
    rows = Approval.objects.select_related("session", "run", "requester", "decided_by").filter(pk=UUID(approval_id))
    approval = rows.first()
    if approval is None:
        return None
    name, payload = build_event(approval, change)
    return OutgoingEvent(name, payload, payload), _build_session_notice(approval) if change in SESSION_CHANGES else None


def _build_session_notice(approval: Approval) -> _SessionNotice | None:
    session = approval.session
    if session is None:
        return None
    for_owner, for_others = (
        OutgoingEvent("session.approval", build_session_event(approval, key), None)
        for key in (session.key, make_shared_key(session.pk))
    )
    return _SessionNotice(str(session.pk), session.owner_id, session.key, for_owner, for_others)


async def wait_for_decision(waits: Waiters[str], user: User, approval_id: str) -> ApprovalRecord:
    """Return the approval request once it is closed."""

    async def read_closed() -> ApprovalRecord | None:
        record = await db.read(find_record, user, approval_id)
        return record if record["status"] != Approval.Status.PENDING else None

    return await waits.wait_until(approval_id, read_closed, poll_seconds=POLL_SECONDS)
