"""Fakes around the gateway: rows in a list, a manual clock, connections that record their frames."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from clawsite.gateway.auth.authority import Credential
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.hub_queries import StreamedSession
from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.protocol.events.frames import SessionName
from clawsite.gateway.protocol.frames import Client, EncodedEvent, dialect_of
from sessions_app.events.announce import EventsCommitted

OWNER, MEMBER, STRANGER = 1, 2, 3
SESSION = "11111111-1111-4111-8111-111111111111"
KEY = "agent:main:main"


class RecordingLine(SocketWriter):
    """Keeps the frames instead of queueing them."""

    def __init__(self) -> None:
        super().__init__(id="c", send=_nowhere, send_close=_nowhere_close)
        self.frames: list[dict[str, Any]] = []

    def deliver(self, event: EncodedEvent, *, droppable: bool = False) -> None:
        self.seq += 1
        self.frames.append(json.loads(event.with_seq(self.seq)))


async def _nowhere(text: str) -> None: ...


async def _nowhere_close(code: int, reason: str) -> None: ...


def connection(user: int = OWNER, *, protocol: int = 4, caps: tuple[str, ...] = (), sees_all: bool = False) -> Connection:
    return Connection(
        line=RecordingLine(),
        client=Client(id="test"),
        authority=SimpleNamespace(
            user=SimpleNamespace(pk=user), may_read=True, sees_all=sees_all, credential=Credential("gateway-token")
        ),
        protocol=protocol,
        dialect=dialect_of(protocol),
        caps=frozenset(caps),
        connected_ms=0,
        scoped="session-scoped-events" in caps,
    )


def frames(connection: Connection, event: str = "") -> list[dict[str, Any]]:
    return [frame for frame in connection.line.frames if not event or frame["event"] == event]


def payloads(connection: Connection, event: str) -> list[dict[str, Any]]:
    return [frame["payload"] for frame in frames(connection, event)]


@dataclass
class Log:
    """A session's committed events, of which the bus delivers as many as a test allows."""

    session: str = SESSION
    key: str = KEY
    owner: int = OWNER
    events: list[dict[str, Any]] = field(default_factory=list)
    committed: int = 0  # the newest committed event
    _seqs: dict[int, int] = field(default_factory=dict)

    def add(self, stream: str, run: int | None = 7, ts: int | None = None, **data: Any) -> dict[str, Any]:
        seq = None
        if run is not None:
            seq = self._seqs[run] = self._seqs.get(run, 0) + 1
        event = {
            "cursor": len(self.events) + 1,
            "run": run,
            "runId": None if run is None else f"run-{run}",
            "seq": seq,
            "stream": stream,
            "ts": 10**15 if ts is None else ts,  # far in the future: all clients here connected before it
            "data": data,
        }
        self.events.append(event)
        return event

    def commit(self, up_to: int | None = None) -> None:
        self.committed = max(self.committed, len(self.events) if up_to is None else up_to)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.events[: self.committed]

    def message(self, *events: dict[str, Any]) -> EventsCommitted:
        """Return the bus message about events that have been committed by then."""
        self.commit(max(event["cursor"] for event in events))
        return EventsCommitted(self.session, self.owner, self.key, [dict(e) for e in events])

    def run(self, text: str, run: int = 7) -> list[dict[str, Any]]:
        """Return the events of a whole run with this text, one delta per word."""
        made = [self.add("lifecycle", run, phase="accepted", prompt="hi"), self.add("lifecycle", run, phase="start", startedAt=1)]
        offset = 0
        for word in text.split(" "):
            delta = word if offset == 0 else f" {word}"
            made.append(self.add("assistant", run, messageId="m1", attempt=1, delta=delta, offset=offset))
            offset += len(delta)
        message = {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": 1, "usage": {"input": 1}}
        made.append(self.add("assistant", run, messageId="m1", attempt=1, final=True, message=message))
        made.append(self.add("lifecycle", run, phase="end", aborted=False, stopReason="stop", startedAt=1, endedAt=2))
        return made


class FakeRows:
    def __init__(self, *logs: Log) -> None:
        self.logs = {log.session: log for log in logs}
        self.memberships: dict[str, frozenset[int]] = {}
        self.ended_runs: list[int] = []
        self.asked: list[str] = []
        self.broken = False

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.broken:
            raise RuntimeError("no database")

    async def session(self, session_id: str) -> StreamedSession | None:
        self._ask("session")
        log = self.logs.get(session_id)
        return StreamedSession(SessionName("generation-1", log.key), log.owner) if log else None

    async def events_after(self, session_id: str, cursor: int) -> tuple[list[dict[str, Any]], bool]:
        self._ask(f"events after {cursor}")
        return [dict(event) for event in self.logs[session_id].rows if event["cursor"] > cursor], False

    async def cursor_before(self, session_id: str, since_ms: int) -> int:
        self._ask("cursor before")
        return max((event["cursor"] for event in self.logs[session_id].rows if event["ts"] < since_ms), default=0)

    async def run_events(self, run_pk: int, before_seq: int) -> list[dict[str, Any]]:
        self._ask("run events")
        events = [event for log in self.logs.values() for event in log.rows]
        return [event for event in events if event["run"] == run_pk and event["seq"] < before_seq]

    async def heads(self, session_ids: Any, users: Any) -> dict[str, int]:
        self._ask("heads")
        return {session: log.committed for session, log in self.logs.items()}

    async def ended(self, run_pks: Any) -> list[int]:
        self._ask("ended")
        return [pk for pk in run_pks if pk in self.ended_runs]

    async def members(self, users: Any) -> dict[str, frozenset[int]]:
        self._ask("members")
        return dict(self.memberships)


class Clock:
    """A clock that a test advances; due timers are then called."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, Any]] = []

    def __call__(self) -> float:
        return self.now

    def later(self, delay: float, call: Any) -> None:
        self._timers.append((self.now + delay, call))

    def pass_(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted((timer for timer in self._timers if timer[0] <= until), key=lambda timer: timer[0]):
            self._timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = until
