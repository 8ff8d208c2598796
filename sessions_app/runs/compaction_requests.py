"""Summaries of a conversation on request: a run of its own in the session's queue, which says nothing and asks for nothing else.

Its wish stands in the run's options, {words, maxLines}; it opens with no message. What is done there is agents.compactor's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra.errors import Forbidden
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.runs import lifecycle
from sessions_app.runs.lifecycle import AcceptedRun
from sessions_app.runs.types import RunState
from sessions_app.transcript.prompt_content import COMPACT

COMPACTED, NOTHING_TO_COMPACT = "compacted", "nothing_to_compact"  # how such a run ends
MAX_INSTRUCTIONS_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    compacted: bool
    kept: int | None = None  # messages that stay word for word
    reason: str = ""


def request_compaction(user: User, session: Session, *, run_id: str, words: str = "", max_lines: int | None = None) -> AcceptedRun:
    """Queue it, behind whatever the session is doing. With `max_lines` no model is asked: what is older is left out.

    For its owner only, like a reset: a guest's wish would decide which of the owner's words the model still knows.
    """
    if session.owner_id != user.pk:
        raise Forbidden("only its owner may have this session summarised; ask them")
    wish: dict[str, Any] = {"words": words[:MAX_INSTRUCTIONS_LENGTH], **({"maxLines": max_lines} if max_lines else {})}
    prompt = " ".join(filter(None, ("/compact", words[:MAX_INSTRUCTIONS_LENGTH])))
    return lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt=prompt, options={COMPACT: wish})


def compaction_options_in(options: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = options.get(COMPACT)
    return found


def skips_model(options: Mapping[str, Any]) -> bool:
    return bool((compaction_options_in(options) or {}).get("maxLines"))


def read_compaction_outcome(state: RunState) -> CompactionOutcome:
    """Of a run that has ended, and not failed."""
    made = TranscriptEntry.objects.filter(run=state.pk, kind=TranscriptEntry.Kind.COMPACTION).order_by("-position").first()
    if made is not None:
        return CompactionOutcome(True, made.meta.get("kept"))
    return CompactionOutcome(False, reason=state.reason if state.status == Run.Status.COMPLETED else state.reason or state.status)
