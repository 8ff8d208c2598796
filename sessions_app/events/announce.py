"""Publish committed events on the bus, in the form the hub delivers.

journal.py numbers events inside the transaction of the change they report; this module only publishes them.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import orjson

from clawsite.infra import bus
from clawsite.infra.bus import BusMessage
from sessions_app.events.journal import EventBatch
from sessions_app.models import Session

MAX_BUS_BYTES = 64 * 1024  # larger events are sent as (run, seq) and read from the database


class EventOut(TypedDict):
    cursor: int
    run: int | None
    runId: str | None
    seq: int | None
    stream: str
    ts: int
    data: dict[str, Any] | None


@dataclass(frozen=True)
class EventsCommitted(BusMessage, kind="events"):
    """Committed events of one session, in cursor order."""

    session: str
    owner: int
    key: str
    events: list[EventOut]


@dataclass(frozen=True)
class RunChanged(BusMessage, kind="run"):
    """A run became claimable (its status), should stop ("abort"), or was returned by its worker ("handed over")."""

    run: int
    status: str


@dataclass(frozen=True)
class FreezesChanged(BusMessage, kind="freeze"):
    """Something was frozen or resumed. Receivers read the rows."""


@dataclass(frozen=True)
class SessionChanged(BusMessage, kind="session"):
    """A session was created, changed or deleted. Its `sessionId` on the wire is the ID of its generation."""

    session: str
    sessionId: str
    key: str
    owner: int
    change: str
    only: int | None = None  # the only user to notify; by default all who can see the session


def announce(
    *,
    session_id: uuid.UUID,
    session_key: str,
    owner_id: int,
    batch: EventBatch,
    run_pk: int | None = None,
    run_id: str | None = None,
) -> None:
    events = [_without_large_data(event) for event in to_wire_events(batch, run_pk, run_id)]
    bus.publish_on_commit(EventsCommitted(str(session_id), owner_id, session_key, events))


def to_wire_events(batch: EventBatch, run_pk: int | None, run_id: str | None) -> list[EventOut]:
    return [
        EventOut(
            cursor=batch.first_cursor + i,
            run=run_pk,
            runId=run_id,
            seq=None if batch.first_seq is None else batch.first_seq + i,
            stream=event.stream,
            ts=batch.ts,
            data=event.data,
        )
        for i, event in enumerate(batch.events)
    ]


def notify_workers(run_pk: int, status: str) -> None:
    """Hint to the workers that a run became claimable or should stop."""
    bus.publish_on_commit(RunChanged(run_pk, status))


def notify_freezes_changed() -> None:
    """Hint that something was frozen or resumed; workers and gateways then read the rows."""
    bus.publish_on_commit(FreezesChanged())


def notify_session_changed(session: Session, change: str, *, only: int | None = None) -> None:
    """Notify everyone who can see the session, or a single user."""
    message = SessionChanged(str(session.id), str(session.generation_id), session.key, session.owner_id, change, only)
    bus.publish_on_commit(message)


def _without_large_data(event: EventOut) -> EventOut:
    if event["stream"] in ("assistant", "thinking", "toolcall") and "delta" in (event["data"] or {}):
        return event  # the runner already limits its size, so it isn't measured here
    if len(orjson.dumps(event["data"])) > MAX_BUS_BYTES:
        return {**event, "data": None}
    return event


def is_last_event(event: Mapping[str, Any]) -> bool:
    """Return whether this is the last event of a run. An event whose data was too large to send might be, so it counts as one."""
    return event["stream"] == "lifecycle" and (event["data"] is None or event["data"]["phase"] in ("end", "error"))
