"""Publish committed events on the bus, in the form the hub delivers.

journal.py numbers events inside the transaction of the change they report; this module only publishes them.
"""

import uuid
from collections.abc import Mapping
from typing import Any, TypedDict

import orjson
from django.db import transaction

from clawsite.infra import bus
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


def announce(
    *,
    session_id: uuid.UUID,
    session_key: str,
    owner_id: int,
    batch: EventBatch,
    run_pk: int | None = None,
    run_id: str | None = None,
) -> None:
    """Publish when the surrounding transaction commits, so nothing is sent that could still be rolled back."""
    message = {
        "k": "events",
        "session": str(session_id),
        "owner": owner_id,
        "key": session_key,
        "events": [_without_large_data(event) for event in to_wire_events(batch, run_pk, run_id)],
    }
    transaction.on_commit(lambda: bus.publish(message))


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
    transaction.on_commit(lambda: bus.publish({"k": "run", "run": run_pk, "status": status}))


def notify_freezes_changed() -> None:
    """Hint that something was frozen or resumed; workers and gateways then read the rows."""
    transaction.on_commit(lambda: bus.publish({"k": "freeze"}))


def notify_session_changed(session: Session, change: str, *, only: int | None = None) -> None:
    """Notify everyone who can see the session, or a single user."""
    message: dict[str, Any] = {
        "k": "session",
        "session": str(session.id),
        "sessionId": str(session.generation_id),
        "key": session.key,
        "owner": session.owner_id,
        "change": change,
    }
    if only is not None:
        message["only"] = only
    transaction.on_commit(lambda: bus.publish(message))


def _without_large_data(event: EventOut) -> EventOut:
    if event["stream"] in ("assistant", "thinking", "toolcall") and "delta" in (event["data"] or {}):
        return event  # the runner already limits its size, so it isn't measured here
    if len(orjson.dumps(event["data"])) > MAX_BUS_BYTES:
        return {**event, "data": None}
    return event


def is_last_event(event: Mapping[str, Any]) -> bool:
    """Return whether this is the last event of a run. An event whose data was too large to send might be, so it counts as one."""
    return event["stream"] == "lifecycle" and (event["data"] is None or event["data"]["phase"] in ("end", "error"))
