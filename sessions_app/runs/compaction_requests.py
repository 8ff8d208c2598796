"""Compaction on request: a separate run in the session's queue that only writes the summary.

Its parameters are in the run's options, {words, maxLines}; it has no opening message. agents.compactor does the work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import Forbidden
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState
from sessions_app.transcript.prompt_content import COMPACT

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
    request: dict[str, Any] = {"words": words[:MAX_INSTRUCTIONS_LENGTH], **({"maxLines": max_lines} if max_lines else {})}
    prompt = " ".join(filter(None, ("/compact", words[:MAX_INSTRUCTIONS_LENGTH])))
    return lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt=prompt, options={COMPACT: request})


def compaction_options_in(options: Mapping[str, Any]) -> dict[str, Any] | None:
    request: dict[str, Any] | None = options.get(COMPACT)
    return request


def skips_model(options: Mapping[str, Any]) -> bool:
    return bool((compaction_options_in(options) or {}).get("maxLines"))


def read_compaction_outcome(state: RunState) -> CompactionOutcome:
    """Return the outcome of a run that ended without failing."""
    summary = TranscriptEntry.objects.filter(run=state.pk, kind=TranscriptEntry.Kind.COMPACTION).order_by("-position").first()
    if summary is not None:
        return CompactionOutcome(True, summary.meta.get("kept"))
    return CompactionOutcome(False, reason=state.reason if state.status == Run.Status.COMPLETED else state.reason or state.status)
