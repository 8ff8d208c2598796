"""What became of prompts that somebody sent to a session: they wait in its queue, or are a message of its transcript."""

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.accounts.models import User
from sessions_app.models import Run, Session, TranscriptEntry


class Receipt(TypedDict):
    """`consumedByEventId` is the id of the message; a prompt that was stopped before its turn has no receipt."""

    runId: str
    state: Literal["pending", "consumed"]
    consumedByEventId: NotRequired[str]


def list_receipts(user: User, session: Session, run_ids: Sequence[str]) -> list[Receipt]:
    """Of the caller's own prompts, in the order in which they were sent."""
    found = Run.objects.filter(owner=user, session=session, run_id__in=run_ids).order_by("id")
    told = TranscriptEntry.objects.filter(run__in=found, kind=TranscriptEntry.Kind.MESSAGE, role="user")
    messages = dict(told.order_by("position").values_list("run_id", "message_id"))
    answers = []
    for run in found.only("id", "run_id", "status"):
        if run.pk in messages:
            answers.append(Receipt(runId=run.run_id, state="consumed", consumedByEventId=messages[run.pk]))
        elif run.status == Run.Status.ACCEPTED:
            answers.append(Receipt(runId=run.run_id, state="pending"))
    return answers
