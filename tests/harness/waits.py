"""Parked runs."""

import uuid

from sessions_app.models import RunWait
from sessions_app.runs import waiting
from sessions_app.runs.types import ClaimedRun
from sessions_app.runs.waiting import Wait


def park(claimed: ClaimedRun) -> None:
    """Park a run as if it waited for an approval request."""
    waiting.park(claimed, "approval", [Wait(RunWait.Kind.APPROVAL, str(uuid.uuid4()))])


def waiting_for(run_pk: int) -> str | None:
    return RunWait.objects.main_kinds([run_pk]).get(run_pk)
