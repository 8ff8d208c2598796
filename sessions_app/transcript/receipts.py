"""Report what happened to prompts sent to a session: still queued, or a message in its transcript."""

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.accounts.models import User
from sessions_app.models import Run, Session, TranscriptEntry


class Receipt(TypedDict):
    """`consumedByEventId` is the message ID; a prompt stopped before it started has no receipt."""

    runId: str
    state: Literal["pending", "consumed"]
    consumedByEventId: NotRequired[str]


def list_receipts(user: User, session: Session, run_ids: Sequence[str]) -> list[Receipt]:
    """List receipts for the caller's own prompts, in the order they were sent."""
    runs = Run.objects.filter(owner=user, session=session, run_id__in=run_ids).order_by("id")
    entries = TranscriptEntry.objects.filter(run__in=runs, kind=TranscriptEntry.Kind.MESSAGE, role="user")
    messages = dict(entries.order_by("position").values_list("run_id", "message_id"))
    receipts = []
    for run in runs.only("id", "run_id", "status"):
        if run.pk in messages:
            receipts.append(Receipt(runId=run.run_id, state="consumed", consumedByEventId=messages[run.pk]))
        elif run.status == Run.Status.ACCEPTED:
            receipts.append(Receipt(runId=run.run_id, state="pending"))
    return receipts
