"""A small correct round: recoveries, an interrupted call, an aborted run, a poisoned run, clients that reconnected.

Its parts can be changed before the clients' records are derived from them, so that a test can break exactly one promise.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.faults.history import (
    CallRow,
    CursorProbe,
    EntryRow,
    EventRow,
    FinalResponse,
    History,
    Rows,
    RunRow,
    SendAttempt,
    WatchedStream,
)

ME, YOU = 1, 2
WRITE = '[[tool=write args={"path":"%s","content":"x"}]] [[tokens=2]]'
Change = Callable[[Any], Any]


class EventLogBuilder:
    """Numbers events with cursors and seqs as the journal does."""

    def __init__(self) -> None:
        self.events: list[EventRow] = []
        self.cursors: dict[str, int] = {}
        self.seqs: dict[int, int] = {}

    def add(self, session: str, run: int, stream: str, /, **data: Any) -> None:
        self.cursors[session] = self.cursors.get(session, 0) + 1
        self.seqs[run] = self.seqs.get(run, 0) + 1
        self.events.append(
            EventRow(session, self.cursors[session], run, self.seqs[run], stream, 1000 + 10 * len(self.events), data)
        )

    def phase(self, session: str, run: int, phase: str, **data: Any) -> None:
        self.add(session, run, "lifecycle", phase=phase, **data)

    def delta(self, session: str, run: int, message: str, text: str, offset: int = 0, stream: str = "assistant") -> None:
        self.add(session, run, stream, messageId=message, attempt=1, delta=text, offset=offset)

    def final(self, session: str, run: int, message: str, text: str) -> None:
        content = [{"type": "text", "text": text}] if text else []
        self.add(session, run, "assistant", messageId=message, attempt=1, final=True, message={"content": content})

    def tool(self, session: str, run: int, call: str, path: str) -> None:
        self.add(session, run, "tool", phase="start", name="write", toolCallId=call, args={"path": path})

    def result(self, session: str, run: int, call: str, text: str, *, error: bool = False) -> None:
        result = {"content": [{"type": "text", "text": text}], "details": {}}
        self.add(session, run, "tool", phase="result", name="write", toolCallId=call, isError=error, result=result)

    def end(self, session: str, run: int, *, aborted: bool = False) -> None:
        self.phase(session, run, "end", aborted=aborted, stopReason="rpc" if aborted else "stop")


def sample_round(
    *, log: Change = lambda log: log, rows: Change = lambda rows: rows, history: Change = lambda history: history
) -> tuple[Rows, History]:
    """Return the round after the three changes; each receives the result of the earlier ones."""
    made = rows(_rows(log(_log())))
    return made, history(_history(made))


def _log() -> EventLogBuilder:
    log = EventLogBuilder()
    log.phase("s1", 1, "accepted", prompt="[[tokens=3]]")
    log.phase("s1", 1, "start")
    log.phase("s1", 2, "accepted", prompt=WRITE % "p")
    log.delta("s1", 1, "m1", "w0 w1 ")
    log.phase("s2", 3, "accepted", prompt="[[tokens=5 hang_after=2]]")
    log.phase("s2", 3, "start")
    log.phase("s1", 1, "rescued", rescues=1)
    log.add("s1", 1, "assistant", messageId="m1", attempt=2, reset=True)
    log.delta("s1", 1, "m2", "w0 ")
    log.delta("s1", 1, "m2", "w1 w2 ", 3)
    log.delta("s2", 3, "m5", "w0 w1 ")
    log.final("s1", 1, "m2", "w0 w1 w2 ")
    log.end("s1", 1)
    log.phase("s1", 2, "start")
    log.final("s1", 2, "m3", "")
    log.tool("s1", 2, "c1", "p")
    log.phase("s1", 2, "rescued", rescues=1)
    log.result("s1", 2, "c1", "interrupted", error=True)
    log.delta("s1", 2, "m4", "w0 w1 ")
    log.final("s1", 2, "m4", "w0 w1 ")
    log.end("s1", 2)
    log.final("s2", 3, "m5", "w0 w1 ")
    log.end("s2", 3, aborted=True)
    log.phase("s2", 4, "accepted", prompt=WRITE % "q")
    log.phase("s2", 4, "start")
    log.final("s2", 4, "m6", "")
    log.tool("s2", 4, "c2", "q")
    log.result("s2", 4, "c2", "created")
    log.delta("s2", 4, "m7", "hm", stream="thinking")
    log.delta("s2", 4, "m7", "w0 w1 ")
    log.final("s2", 4, "m7", "w0 w1 ")
    log.end("s2", 4)
    log.phase("s3", 5, "accepted", prompt="[[hang]]")
    log.phase("s3", 5, "start")
    for rescue in (1, 2, 3):
        log.phase("s3", 5, "rescued", rescues=rescue)
    log.phase("s3", 5, "error", error="died", kind="poisoned")
    return log


def _rows(log: EventLogBuilder) -> Rows:
    run = RunRow(1, "k1", ME, "s1", "completed", "stop", "", "[[tokens=3]]", "main", lease=2, rescues=1, seq=log.seqs[1], steps=2)
    entry = EntryRow("s1", 1, 1, 0, "user", "[[tokens=3]]", "u1")
    return Rows(
        runs=[
            run,
            replace(run, pk=2, run_id="k2", prompt=WRITE % "p", seq=log.seqs[2], steps=4),
            replace(
                run, pk=3, run_id="k1", owner=YOU, session="s2", status="aborted", reason="rpc",
                prompt="[[tokens=5 hang_after=2]]", lease=1, rescues=0, seq=log.seqs[3],
            ),
            replace(
                run, pk=4, run_id="k4", owner=YOU, session="s2", prompt=WRITE % "q", lease=1, rescues=0, seq=log.seqs[4], steps=4,
            ),
            replace(
                run, pk=5, run_id="k5", session="s3", status="error", reason="poisoned", error="died",
                prompt="[[hang]]", lease=4, rescues=3, seq=log.seqs[5], steps=1,
            ),
        ],
        events=log.events,
        calls=[
            CallRow(2, "c1", 0, "write", {"path": "p"}, "interrupted", 1, "interrupted"),
            CallRow(4, "c2", 0, "write", {"path": "q"}, "finished", 1, "created"),
        ],
        entries=[
            entry,
            replace(entry, position=2, step=1, role="assistant", text="w0 w1 w2 ", message_id="m2"),
            replace(entry, position=3, run=2, text=WRITE % "p", message_id="u2"),
            replace(entry, position=4, run=2, step=1, role="assistant", text="", message_id="m3"),
            replace(entry, position=5, run=2, step=2, role="toolResult", text="interrupted", message_id="t1"),
            replace(entry, position=6, run=2, step=3, role="assistant", text="w0 w1 ", message_id="m4"),
            replace(entry, session="s2", run=3, message_id="u3"),
            replace(entry, session="s2", position=2, run=3, step=1, role="assistant", text="w0 w1 ", message_id="m5"),
            replace(entry, session="s2", position=3, run=4, message_id="u4"),
            replace(entry, session="s2", position=4, run=4, step=1, role="assistant", text="", message_id="m6"),
            replace(entry, session="s2", position=5, run=4, step=2, role="toolResult", text="created", message_id="t2"),
            replace(entry, session="s2", position=6, run=4, step=3, role="assistant", text="w0 w1 ", message_id="m7"),
            replace(entry, session="s3", run=5, message_id="u5"),
        ],
        lanes={"main": 2},
        most_rescues=3,
    )  # fmt: skip


def _history(rows: Rows) -> History:
    history = History(seed=0, executed={"p": 1, "q": 1})
    for run in rows.runs:
        answer = {"runId": run.run_id, "sessionKey": run.session, "acceptedAt": run.pk}
        history.sent += [
            SendAttempt("info", run.owner, run.run_id, run.session, run.prompt),
            SendAttempt("ok", run.owner, run.run_id, run.session, run.prompt, answer),
            SendAttempt("ok", run.owner, run.run_id, run.session, run.prompt, {"runId": run.run_id}),
            SendAttempt("fail", run.owner, run.run_id, run.session, "something else", code="CONFLICT"),
        ]
        if run.pk == 1:
            history.finals.append(FinalResponse(run.owner, run.run_id, True, "w0 w1 w2 "))
    ids = {run.pk: run.run_id for run in rows.runs}
    for session, events in rows.events_of_sessions().items():
        told = [_payload(event, ids) for event in events]
        history.watched += [
            WatchedStream("calm", session, ME, 0, told, complete=True),
            WatchedStream("restless", session, ME, 0, told[:4], slow=True, closed=1008),
            WatchedStream("restless", session, ME, 4, told[4:], complete=True),
        ]
        history.probed.append(CursorProbe(session, len(events) + 1000, resync=True))
    return history


def _payload(event: EventRow, ids: dict[int, str]) -> dict[str, Any]:
    name = ids.get(event.run or 0)
    return {"cursor": event.cursor, "runId": name, "seq": event.seq, "stream": event.stream, "ts": event.ts, "data": event.data}
