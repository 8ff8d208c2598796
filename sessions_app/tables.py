"""Table names for hand-written SQL, and locks on several rows of these tables."""

from collections.abc import Sequence
from typing import Any

from clawsite.infra.sql import fetch_rows, has_row_locks, placeholders

RUN = "sessions_app_run"
SESSION = "sessions_app_session"
EVENT = "sessions_app_event"
ENTRY = "sessions_app_transcriptentry"
LANE = "sessions_app_lane"
FREEZE = "sessions_app_freeze"
SYSTEM_EVENT = "sessions_app_systemevent"
RUN_WAIT = "sessions_app_runwait"


def lock_sessions(ids: Sequence[Any]) -> None:
    """Lock several session rows in key order, so that two processes cannot deadlock."""
    if has_row_locks():
        fetch_rows(f"SELECT id FROM {SESSION} WHERE id IN ({placeholders(ids)}) ORDER BY id FOR UPDATE", ids)


def lock_runs(ids: Sequence[Any]) -> None:
    """Lock several run rows in the order of their sessions, which is also the order of session locks."""
    if has_row_locks():
        fetch_rows(f"SELECT id FROM {RUN} WHERE id IN ({placeholders(ids)}) ORDER BY session_id, id FOR UPDATE", ids)
