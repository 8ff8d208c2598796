"""Compaction on request: a separate run in the session's queue that only writes the summary.

It has no opening message. agents.compactor does the work.
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import Forbidden
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.run_request import Compaction, RunRequest
from sessions_app.runs import lifecycle
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState

COMPACTED, NOTHING_TO_COMPACT = "compacted", "nothing_to_compact"  # end reasons of such a run
MAX_INSTRUCTIONS_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    compacted: bool
    kept: int | None = None  # messages kept verbatim
    reason: str = ""


def request_compaction(user: User, session: Session, *, run_id: str, words: str = "", max_lines: int | None = None) -> AcceptedRun:
    """Queue a compaction after the session's other runs. With `max_lines`, older entries are dropped without calling a model.

    Only for the owner, like a reset: otherwise a guest could decide which of the owner's messages the model still sees.
    """
    if session.owner_id != user.pk:
        raise Forbidden(_("Only the owner can compact this session."))
    kind = Compaction(words[:MAX_INSTRUCTIONS_LENGTH], max_lines)
    prompt = " ".join(filter(None, ("/compact", kind.instructions)))
    return lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt=prompt, request=RunRequest(kind))


def read_compaction_outcome(state: RunState) -> CompactionOutcome:
    """Return the outcome of a run that ended without failing."""
    summary = TranscriptEntry.objects.filter(run=state.pk, kind=TranscriptEntry.Kind.COMPACTION).order_by("-position").first()
    if summary is not None:
        return CompactionOutcome(True, summary.meta.get("kept"))
    return CompactionOutcome(False, reason=state.reason if state.status == Run.Status.COMPLETED else state.reason or state.status)
