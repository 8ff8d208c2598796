"""What is compared after a round: the rows and the clients' records. Plain values, so that the checker is pure."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class RunRow:
    pk: int
    run_id: str
    owner: int
    session: str
    status: str
    reason: str
    error: str
    prompt: str
    lane: str
    lease: int
    rescues: int
    seq: int
    steps: int
    ready: bool = False  # to continue after a wait
    waits: tuple[str, ...] = ()  # what it waits for

    @property
    def ended(self) -> bool:
        return self.status in ("completed", "error", "aborted")


@dataclass(frozen=True)
class EventRow:
    session: str
    cursor: int
    run: int | None
    seq: int | None
    stream: str
    ts: int
    data: dict[str, Any]

    @property
    def phase(self) -> str:
        return str(self.data.get("phase", "")) if self.stream == "lifecycle" else ""

    @property
    def is_last(self) -> bool:
        return self.phase in ("end", "error")


@dataclass(frozen=True)
class CallRow:
    run: int
    call_id: str
    position: int
    name: str
    arguments: dict[str, Any]
    status: str
    lease: int
    text: str


@dataclass(frozen=True)
class EntryRow:
    session: str
    position: int
    run: int | None
    step: int | None
    role: str
    text: str
    message_id: str


@dataclass(frozen=True)
class Rows:
    runs: list[RunRow]
    events: list[EventRow]
    calls: list[CallRow]
    entries: list[EntryRow]
    lanes: dict[str, int]  # name -> max concurrent runs
    most_rescues: int

    def events_of_runs(self) -> dict[int, list[EventRow]]:
        found: dict[int, list[EventRow]] = {run.pk: [] for run in self.runs}
        for event in sorted(self.events, key=lambda event: event.seq or 0):
            if event.run is not None:
                found[event.run].append(event)
        return found

    def events_of_sessions(self) -> dict[str, list[EventRow]]:
        found: dict[str, list[EventRow]] = {run.session: [] for run in self.runs}
        for event in sorted(self.events, key=lambda event: event.cursor):
            found.setdefault(event.session, []).append(event)
        return found


@dataclass(frozen=True)
class SendAttempt:
    """One attempt to send. ok: accepted; fail: rejected with a code; info: outcome unknown."""

    outcome: str
    owner: int
    key: str
    session_key: str
    body: str
    answer: dict[str, Any] = field(default_factory=dict)
    code: str = ""


@dataclass(frozen=True)
class FinalResponse:
    """The second response of `agent`: how the run ended."""

    owner: int
    key: str
    ok: bool
    text: str


@dataclass
class WatchedStream:
    """The events of one session that one connection received after subscribing from cursor `after`."""

    client: str
    session_key: str
    owner: int
    after: int
    events: list[dict[str, Any]] = field(default_factory=list)  # payloads in order of arrival
    slow: bool = False  # the client stopped reading for a while
    flooded: bool = False  # more was sent than all buffers hold while the client did not read
    closed: int | None = None
    frame_gap: str = ""
    complete: bool = False  # still connected at the end, so it must have received everything


@dataclass(frozen=True)
class CursorProbe:
    """A request for events after a cursor that doesn't exist, or after which events may be missing."""

    session_key: str
    place: int
    resync: bool
    whole: bool = False  # every later event was returned instead


@dataclass
class History:
    seed: int
    sent: list[SendAttempt] = field(default_factory=list)
    finals: list[FinalResponse] = field(default_factory=list)
    watched: list[WatchedStream] = field(default_factory=list)
    probed: list[CursorProbe] = field(default_factory=list)
    executed: dict[str, int] = field(default_factory=dict)  # path of a file write -> number of attempts
    faults: list[str] = field(default_factory=list)  # descriptions of the injected faults
