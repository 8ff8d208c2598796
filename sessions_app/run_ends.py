"""How runs ended that have no whole answer: what a history says beside its messages.

A run that failed, or was stopped before it said anything, has no message that could tell so; one that was stopped while it was
queued has not even its prompt in the transcript.
"""

from collections.abc import Iterable
from typing import Any

from clawsite.infra import clock
from sessions_app import sql
from sessions_app.models import Run, Session

# All of them together stay below 100 KB, beside messages of 768 KB in a reply of at most 1 MiB.
MOST, CHARACTERS = 100, 500


def ends_without_answer(session: Session, *, first: int, last: int, known: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    """Failed and stopped runs of this generation with row ids from `first` to `last`, the newest of them, oldest first.

    `known` are the row ids and run ids of what else the client is told: `afterRunId` places a run that never started among them.
    """
    rows = sql.rows(
        f"""
        SELECT id, run_id, status, reason, error, prompt, started_at, ended_at FROM {sql.RUN}
        WHERE session_id = %s AND generation = %s AND id >= %s AND id <= %s AND status IN (%s, %s)
        ORDER BY id DESC LIMIT {MOST}
        """,
        [sql.uuid_value(session.pk), session.generation, first, last, str(Run.Status.FAILED), str(Run.Status.ABORTED)],
    )
    order = sorted({*known, *((row[0], row[1]) for row in rows)})
    before = dict(zip((pk for pk, _ in order), [None, *(run_id for _, run_id in order)], strict=False))
    ends = []
    for pk, run_id, status, reason, error, prompt, started_at, ended_at in reversed(rows):
        end = {"runId": run_id, "status": status, "reason": reason, "endedAt": clock.to_ms(sql.as_moment(ended_at))}
        if error:
            end["error"] = error[:CHARACTERS]
        if started_at is None:
            end |= {"text": prompt[:CHARACTERS], "afterRunId": before[pk]}
        ends.append(end)
    return ends
