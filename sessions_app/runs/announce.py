"""Publish the events of a run that a worker has claimed."""

from sessions_app.events import announce
from sessions_app.events.journal import EventBatch
from sessions_app.runs.types import ClaimedRun


def announce_run(claimed: ClaimedRun, batch: EventBatch) -> None:
    """Publish the events of a claimed run when the surrounding transaction commits."""
    announce.announce(
        session_id=claimed.session_id,
        session_key=claimed.session_key,
        owner_id=claimed.session_owner_id,
        batch=batch,
        run_pk=claimed.pk,
        run_id=claimed.run_id,
    )
