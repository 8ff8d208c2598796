"""Pins, archive and read positions: one user's marks on sessions they can see, and how lists reflect them."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Greatest
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.events import announce
from sessions_app.models import Run, RunWait, Session, SessionMark, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.transcript.rewinds import visible_condition

MARK_TABLE = "sessions_app_sessionmark"
MEMBER_TABLE = "sessions_app_sessionmember"


class SessionRowState(TypedDict):
    """State of a session's row for one user, besides the session itself."""

    pinned: bool
    archived: bool
    unread: bool
    status: str | None  # running, waiting or queued
    waitingFor: str | None


@transaction.atomic
def mark_session(user: User, session: Session, *, pinned: bool | None = None, archived: bool | None = None) -> None:
    """Pin or archive a session for this user, or undo it. An unchanged mark keeps its time."""
    mark, _ = SessionMark.objects.get_or_create(user=user, session=session)
    changed = []
    for field, value in (("pinned_at", pinned), ("archived_at", archived)):
        if value is not None and value != (getattr(mark, field) is not None):
            setattr(mark, field, clock.now() if value else None)
            changed.append(field)
    if changed:
        mark.save(update_fields=changed)
        announce.notify_session_changed(session, "patched", only=user.pk)


@transaction.atomic
def mark_read(user: User, session: Session) -> bool:
    """Mark everything as read; return whether anything was new."""
    end = Session.objects.values_list("entry_count", flat=True).get(pk=session.pk)
    mark, updated = SessionMark.objects.get_or_create(user=user, session=session, defaults={"read_position": end})
    if not updated:
        behind = SessionMark.objects.filter(pk=mark.pk, read_position__lt=end)
        updated = bool(behind.update(read_position=Greatest(F("read_position"), end)))
    if updated:
        announce.notify_session_changed(session, "patched", only=user.pk)
    return updated


def has_shared_sessions(user: User) -> bool:
    """Return whether another user shares a session with them."""
    return bool(sql.fetch_rows(f"SELECT 1 FROM {MEMBER_TABLE} WHERE user_id = %s LIMIT 1", [user.pk]))


def list_page(
    user: User, found: SessionQuerySet, in_order: SessionQuerySet, *, archived: bool, limit: int, offset: int
) -> tuple[list[Session], int]:
    """Return a page of the archived sessions or of the others: pinned first, most recent pin first, then `in_order`; and the total.

    Pinned sessions are read separately, so the others can use the order of an index.
    """
    put_away = SessionMark.objects.filter(user=user, archived_at__isnull=False).values("session")
    pins = sql.fetch_rows(
        f"SELECT session_id, archived_at IS NOT NULL FROM {MARK_TABLE} WHERE user_id = %s AND pinned_at IS NOT NULL "
        "ORDER BY pinned_at DESC, session_id",
        [user.pk],
    )
    pinned_ids = [sql.as_uuid(pk) for pk, is_away in pins if bool(is_away) == archived]
    pinned = found.in_bulk(pinned_ids) if pinned_ids else {}
    first = [pinned[pk] for pk in pinned_ids if pk in pinned]
    page = first[offset : offset + limit]
    has_away = bool(sql.fetch_rows(f"SELECT 1 FROM {MARK_TABLE} WHERE user_id = %s AND archived_at IS NOT NULL LIMIT 1", [user.pk]))
    rest = in_order
    if archived or has_away:
        rest = rest.filter(pk__in=put_away) if archived else rest.exclude(pk__in=put_away)
    if pinned_ids:
        rest = rest.exclude(pk__in=pinned_ids)
    if len(page) < limit:
        start = max(0, offset - len(first))
        page += rest[start : start + limit - len(page)]
    # Counted as all minus the archived ones: an index counts all, and archived ones are few.
    away = found.filter(pk__in=put_away).count() if has_away else 0
    return page, away if archived else in_order.order_by().count() - away


def read_row_states(user: User, sessions: Sequence[Session]) -> dict[UUID, SessionRowState]:
    """Return each session's row state for the user."""
    if not sessions:
        return {}
    ids = [session.pk for session in sessions]
    noted = _read_marks(user, ids)
    going = _read_unfinished_runs(ids)
    unread = _find_unread(user, sessions, noted)
    states: dict[UUID, SessionRowState] = {}
    for pk in ids:
        mark = noted.get(pk, _NO_MARKS)
        status, reason = going.get(pk, (None, None))
        states[pk] = SessionRowState(
            pinned=mark.pinned, archived=mark.archived, unread=pk in unread, status=status, waitingFor=reason
        )
    return states


class _Marks(NamedTuple):
    pinned: bool
    archived: bool
    read_position: int


_NO_MARKS = _Marks(False, False, 0)


def _read_marks(user: User, ids: Sequence[UUID]) -> dict[UUID, _Marks]:
    rows = sql.fetch_rows(
        f"SELECT session_id, pinned_at IS NOT NULL, archived_at IS NOT NULL, read_position FROM {MARK_TABLE} "
        f"WHERE user_id = %s AND session_id IN ({sql.placeholders(ids)})",
        [user.pk, *(sql.uuid_value(pk) for pk in ids)],
    )
    return {sql.as_uuid(pk): _Marks(bool(pinned), bool(archived), position) for pk, pinned, archived, position in rows}


def _read_unfinished_runs(ids: Sequence[UUID]) -> dict[UUID, tuple[str, str | None]]:
    """Return each session's active run, or else its queued run."""
    runs: dict[UUID, tuple[str, str | None]] = {}
    rows = sql.fetch_rows(
        f"SELECT session_id, status, id FROM {tables.RUN} "
        f"WHERE status IN ('accepted', 'running', 'waiting') AND session_id IN ({sql.placeholders(ids)}) ORDER BY session_id, id",
        [sql.uuid_value(pk) for pk in ids],
    )
    waits = RunWait.objects.main_kinds([run_pk for _, status, run_pk in rows if status == Run.Status.WAITING])
    for session_id, status, run_pk in rows:
        pk = sql.as_uuid(session_id)
        if status == Run.Status.ACCEPTED:
            runs.setdefault(pk, ("queued", None))
        else:
            runs[pk] = (status, waits.get(run_pk))
    return runs


def _find_unread(user: User, sessions: Sequence[Session], noted: dict[UUID, _Marks]) -> set[UUID]:
    """Return sessions with an answer after the last read position. Sessions visible only by permission are never unread."""
    foreign = {session.pk for session in sessions if session.owner_id != user.pk and session.pk not in noted}
    if foreign:
        foreign -= set(SessionMember.objects.filter(user=user, session__in=foreign).values_list("session_id", flat=True))
    values: list[Any] = []
    for session in sessions:
        read = noted.get(session.pk, _NO_MARKS).read_position
        if session.entry_count > read and session.pk not in foreign:
            values += [sql.uuid_value(session.pk), session.generation, read]
    if not values:
        return set()
    rows_sql = ", ".join(["(%s, %s, %s)"] * (len(values) // 3))
    rows = sql.fetch_rows(
        f"""
        WITH v(id, generation, position) AS (VALUES {rows_sql})
        SELECT v.id FROM v WHERE EXISTS (
          SELECT 1 FROM {tables.ENTRY} e WHERE e.session_id = v.id AND e.position > v.position AND e.generation = v.generation
          AND e.kind = 'message' AND e.role = 'assistant' AND {visible_condition("e")}
        )
        """,
        values,
    )
    return {sql.as_uuid(pk) for (pk,) in rows}
