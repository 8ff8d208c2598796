"""The checker itself: it accepts a correct round, and reports each promise that is broken.

A check that can't fail proves nothing, so every promise has at least one deliberate fault here. Faults in the code itself are in
test_mutants.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.checker import CHECKS, find_violations
from tests.faults.history import History, Rows, SendAttempt
from tests.faults.sample_round import ME, EventLogBuilder, sample_round


def found(**changes: Callable[[Any], Any]) -> set[str]:
    return {violation.promise for violation in find_violations(*sample_round(**changes))}


def test_correct_round_violates_no_invariant():
    assert find_violations(*sample_round()) == []


# Changed events: reordered, or with additions.


def numbered_anew(log: EventLogBuilder, keep: Callable[[Any], bool]) -> EventLogBuilder:
    again = EventLogBuilder()
    for event in filter(keep, log.events):
        again.add(event.session, event.run, event.stream, **event.data)
    return again


def moved(log: EventLogBuilder, run: int, phase: str, *, before: tuple[int, str]) -> EventLogBuilder:
    """The same events with one moved to an earlier position, and renumbered."""

    def at(run: int, phase: str) -> int:
        return next(i for i, event in enumerate(log.events) if event.run == run and event.phase == phase)

    events = list(log.events)
    events.insert(at(*before), events.pop(at(run, phase)))
    again = EventLogBuilder()
    for event in events:
        assert event.run is not None
        again.add(event.session, event.run, event.stream, **event.data)
    return again


def stale_write(log: EventLogBuilder) -> EventLogBuilder:
    """The first owner of run 1 writes once more after its recovery."""
    again = EventLogBuilder()
    for event in log.events:
        assert event.run is not None
        again.add(event.session, event.run, event.stream, **event.data)
        if event.run == 1 and event.phase == "rescued":
            again.delta("s1", 1, "m1", "w2 ", 6)
    return again


def without(log: EventLogBuilder, condition: Callable[[Any], bool]) -> EventLogBuilder:
    log.events = [event for event in log.events if not condition(event)]
    return log


def second_end(log: EventLogBuilder) -> EventLogBuilder:
    log.end("s1", 1)
    return log


def said_instead(text: str) -> Callable[[EventLogBuilder], EventLogBuilder]:
    """Run 4 streams and stores a text that differs from the model's."""

    def changed(log: EventLogBuilder) -> EventLogBuilder:
        again = EventLogBuilder()
        for event in log.events:
            assert event.run is not None
            data = event.data
            if event.run == 4 and data.get("delta") == "w0 w1 ":
                data = {**data, "delta": text}
            if data.get("messageId") == "m7" and data.get("final"):
                data = {**data, "message": {"content": [{"type": "text", "text": text}]}}
            again.add(event.session, event.run, event.stream, **data)
        return again

    return changed


def torn(log: EventLogBuilder) -> EventLogBuilder:
    log.events = [replace(e, data={**e.data, "offset": 2}) if e.data.get("offset") == 3 else e for e in log.events]
    return log


# Changed rows.


def run(pk: int, **fields: Any) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, runs=[replace(row, **fields) if row.pk == pk else row for row in rows.runs])


def call(call_id: str, **fields: Any) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, calls=[replace(row, **fields) if row.call_id == call_id else row for row in rows.calls])


def entry(message: str, /, **fields: Any) -> Callable[[Rows], Rows]:
    return lambda rows: replace(rows, entries=[replace(e, **fields) if e.message_id == message else e for e in rows.entries])


def still_running(rows: Rows) -> Rows:
    """Run 4 lacks only its end."""
    rows = replace(rows, events=[event for event in rows.events if not (event.run == 4 and event.is_last)])
    return run(4, status="running", reason="", seq=rows.runs[3].seq - 1)(rows)


# Changed client records.


def sent(*more: SendAttempt) -> Callable[[History], History]:
    return lambda history: replace(history, sent=[*history.sent, *more])


def told(change: Callable[[list[Any]], list[Any]]) -> Callable[[History], History]:
    """Change what the first client received."""

    def changed(history: History) -> History:
        history.watched[0].events = change(list(history.watched[0].events))
        return history

    return changed


def watched(**fields: Any) -> Callable[[History], History]:
    def changed(history: History) -> History:
        history.watched[0] = replace(history.watched[0], **fields)
        return history

    return changed


OTHER_ANSWER = SendAttempt("ok", ME, "k1", "s1", "[[tokens=3]]", {"runId": "k1", "sessionKey": "s9"})
FAULTS = {
    "an acknowledged run is not there": ("R1", {"history": sent(SendAttempt("ok", ME, "k9", "s1", "hello", {"runId": "k9"}))}),
    "two runs under one key": ("R2", {"rows": run(5, run_id="k2")}),
    "two answers under one key": ("R2", {"history": sent(OTHER_ANSWER)}),
    "another body is accepted": ("R2", {"history": sent(SendAttempt("ok", ME, "k1", "s1", "other", {"runId": "k1"}))}),
    "the same body is a conflict": ("R2", {"history": sent(SendAttempt("fail", ME, "k1", "s1", "[[tokens=3]]", code="CONFLICT"))}),
    "the last answer is another one": ("R2", {"history": lambda h: replace(h, finals=[replace(h.finals[0], text="w0")])}),
    "a stale worker writes": ("R3", {"log": stale_write}),
    "a claim left no trace": ("R3", {"rows": run(1, lease=3)}),
    "a call under a lease to come": ("R3", {"rows": call("c2", lease=2)}),
    "two runs have the turn": ("R4", {"log": lambda log: moved(log, 2, "start", before=(1, "end"))}),
    "a later run goes first": ("R4", {"log": lambda log: moved(log, 2, "accepted", before=(1, "accepted"))}),
    "a lane is too full": ("R4", {"rows": lambda rows: replace(rows, lanes={"main": 1})}),
    "a run never ends": ("R5", {"rows": still_running}),
    "a tool is carried out twice": ("R6", {"history": lambda h: replace(h, executed={"p": 2, "q": 1})}),
    "a finished call was never carried out": ("R6", {"history": lambda h: replace(h, executed={"p": 1})}),
    "a call stays in flight": ("R6", {"rows": call("c1", status="started")}),
    "a call still waits": ("R6", {"rows": call("c1", status="waiting")}),
    "a step is missing": ("R6", {"rows": entry("t1", step=9)}),
    "a parked run waits for nothing": ("R5 waits", {"rows": lambda rows: run(4, status="waiting")(still_running(rows))}),
    "an ended run waits": ("waits", {"rows": run(1, waits=("child 7",))}),
    "too many rescues": ("R8", {"rows": run(5, rescues=4)}),
    "rescued to the limit and completed": ("R8", {"rows": run(1, rescues=3)}),
    "a hole in the events": ("R9", {"log": lambda log: without(log, lambda event: event.stream == "thinking")}),
    "two ends": ("R9", {"log": second_end}),
    "an event is lost on the way": ("R10", {"history": told(lambda t: t[:2] + t[3:])}),
    "an event comes twice": ("R10", {"history": told(lambda t: [*t[:3], t[2], *t[3:]])}),
    "events change places": ("R10", {"history": told(lambda t: [t[1], t[0], *t[2:]])}),
    "an event is told that was never stored": ("R10", {"history": told(lambda t: [*t, {**t[-1], "cursor": 99}])}),
    "the last event is not told": ("R10", {"history": told(lambda t: t[:-1])}),
    "the frames have a hole": ("R10", {"history": watched(frame_gap="frame 9 came after 7")}),
    "a gap is not told": ("R11", {"history": lambda h: replace(h, probed=[replace(h.probed[0], resync=False)])}),
    "a fast client is cut off": ("R12", {"history": watched(closed=1008)}),
    "a client that does not read is kept": ("R12", {"history": watched(flooded=True)}),
    "clients see different things": ("R10 R13", {"history": told(lambda t: [{**t[0], "data": {}}, *t[1:]])}),
    "an answer is stored double": ("text", {"log": said_instead("w0 w1 w0 w1 "), "rows": entry("m7", text="w0 w1 w0 w1 ")}),
    "an answer is cut short": ("text", {"log": said_instead("w0 "), "rows": entry("m7", text="w0 ")}),
    "a broken answer is not told to be void": ("text", {"log": lambda log: numbered_anew(log, lambda e: not e.data.get("reset"))}),
    "deltas overlap": ("text", {"log": torn}),
    "the transcript has another message": ("replay", {"rows": entry("m2", message_id="other")}),
    "the row ended for another reason": ("replay", {"rows": run(1, reason="length")}),
    "the row has another tool result": ("replay", {"rows": call("c1", text="created")}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_violated_invariant_is_named(fault):
    promises, changes = FAULTS[fault]
    assert found(**changes) == set(promises.split())


def test_every_invariant_has_a_fault_that_violates_it():
    broken = {promise for promises, _ in FAULTS.values() for promise in promises.split()}
    assert broken == set(CHECKS)
