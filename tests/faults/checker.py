"""Compare the clients' records with the rows after a round, promise by promise. Pure.

The promises are numbered as in docs/reliability.md. Three more have names: `text` (an answer is stored completely and once),
`replay` (a run's events match its rows) and `waits` (a parked run waits for something or is ready; an ended one waits for
nothing). Each check reports only its own promise, so that a fault can be located.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.faults import run_text
from tests.faults.history import EventRow, History, Rows, RunRow

Check = Callable[[Rows, History], Iterator[str]]
CLAIMS = ("start", "resume", "rescued")


@dataclass(frozen=True)
class Violation:
    promise: str
    message: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.message}"


def find_violations(rows: Rows, history: History) -> list[Violation]:
    return [Violation(promise, message) for promise, check in CHECKS.items() for message in check(rows, history)]


def r1_no_accepted_run_is_lost(rows: Rows, history: History) -> Iterator[str]:
    stored = {(run.owner, run.run_id) for run in rows.runs}
    for sent in history.sent:
        if sent.outcome == "ok" and (sent.owner, sent.key) not in stored:
            yield f"run {sent.key} was acknowledged and does not exist"


def r2_one_run_per_key(rows: Rows, history: History) -> Iterator[str]:
    runs: dict[tuple[int, str], list[RunRow]] = defaultdict(list)
    for run in rows.runs:
        runs[run.owner, run.run_id].append(run)
    for (_, key), found in runs.items():
        if len(found) > 1:
            yield f"key {key} has {len(found)} runs"
    answered: dict[tuple[int, str, str], set[object]] = defaultdict(set)
    for sent in history.sent:
        stored = runs.get((sent.owner, sent.key))
        if sent.outcome == "ok":
            for name, value in sent.answer.items():
                answered[sent.owner, sent.key, name].add(value)
            if stored and sent.body != stored[0].prompt:
                yield f"key {sent.key} was accepted again with another body"
        if sent.outcome == "fail" and sent.code == "CONFLICT" and stored and sent.body == stored[0].prompt:
            yield f"key {sent.key} with the same body was called a conflict"
    for (_, key, name), values in answered.items():
        if len(values) > 1:
            yield f"key {key} got different answers: {name} {sorted(map(str, values))}"
    for final in history.finals:
        for run in runs.get((final.owner, final.key), []):
            if (run.status == "completed", run_text.stored_text(rows, run)) != (final.ok, final.text) and run.status != "aborted":
                yield f"run {run.run_id} is {run.status} and its client received {'ok' if final.ok else 'error'} {final.text!r}"


def r3_only_the_owner_writes(rows: Rows, _: History) -> Iterator[str]:
    for run, events in _with_events(rows):
        claims = [event for event in events if event.phase in CLAIMS]
        if len(claims) != run.lease:
            yield f"run {run.run_id} was claimed {len(claims)} times and has lease {run.lease}"
        before: set[str] = set()
        now: set[str] = set()
        for event in events:
            if event.phase in CLAIMS:
                before, now = before | now, set()
            message = event.data.get("messageId", "") if event.stream in ("assistant", "thinking") else ""
            if message and message in before and not event.data.get("reset"):
                yield f"run {run.run_id}: seq {event.seq} belongs to a message of an earlier owner"
            now |= {message} if message else set()
        calls = [call for call in sorted(rows.calls, key=lambda call: call.position) if call.run == run.pk]
        leases = [call.lease for call in calls]
        if leases != sorted(leases) or (leases and leases[-1] > run.lease):
            told = [f"{call.name} {call.call_id} at {call.position}: {call.status} under {call.lease}" for call in calls]
            story = [f"{event.seq} {event.stream} {event.data}"[:160] for event in events]
            yield f"run {run.run_id}, claimed {run.lease} times: " + "; ".join(told) + "".join(f"\n    {line}" for line in story)


def r4_in_order_and_within_the_lanes(rows: Rows, _: History) -> Iterator[str]:
    names = {run.pk: run.run_id for run in rows.runs}
    for events in rows.events_of_sessions().values():
        active: int | None = None
        queued: list[int] = []
        for event in events:
            if event.run is None:
                continue
            if event.phase == "accepted":
                queued.append(event.run)
            elif event.phase == "start":
                if active is not None:
                    yield f"run {names[event.run]} started while {names[active]} had the turn"
                if queued and queued[0] != event.run:
                    yield f"run {names[event.run]} started before {names[queued[0]]}, which was accepted earlier"
                active = event.run
                queued = [run for run in queued if run != event.run]
            elif event.is_last:
                active = None if active == event.run else active
                queued = [run for run in queued if run != event.run]
    for lane, most in rows.lanes.items():
        for held in _held_together(rows, lane):
            if len(held) > most:
                yield f"lane {lane} held {len(held)} runs at once, at most {most}: {sorted(names[pk] for pk in held)}"


def _held_together(rows: Rows, lane: str) -> Iterator[set[int]]:
    """Yield the concurrent runs at each start. Within a millisecond, ends are assumed to come first: a claim counts under a lock
    and reads the clock afterwards, so a claim that saw an end is never stamped before it."""
    lanes = {run.pk: run.lane for run in rows.runs}
    moments = []
    for event in rows.events:
        if event.run is None or lanes.get(event.run) != lane:
            continue
        if event.phase in CLAIMS:
            moments.append((event.ts, 1, event.run))
        elif event.is_last or event.phase == "waiting":
            moments.append((event.ts, 0, event.run))
    held: set[int] = set()
    for _, begins, run in sorted(moments):
        if begins:
            held.add(run)
            yield set(held)
        else:
            held.discard(run)


def r5_everything_comes_to_an_end(rows: Rows, _: History) -> Iterator[str]:
    for run in rows.runs:
        if not run.ended:
            yield f"run {run.run_id} is still {run.status}: it was not recovered"


def parked_runs_wait_for_something(rows: Rows, _: History) -> Iterator[str]:
    for run in rows.runs:
        if run.status == "waiting" and not (run.waits or run.ready):
            yield f"run {run.run_id} is parked, waits for nothing and is not ready"
        if run.ended and run.waits:
            yield f"run {run.run_id} is {run.status} and waits for {', '.join(run.waits)}"


def r6_a_tool_runs_at_most_once(rows: Rows, history: History) -> Iterator[str]:
    for path, times in history.executed.items():
        if times > 1:
            yield f"the write of {path} was executed {times} times"
    ended = {run.pk: run.run_id for run in rows.runs if run.ended}
    for call in rows.calls:
        if call.status in ("started", "waiting") and call.run in ended:
            yield f"call {call.call_id} of run {ended[call.run]} is still {call.status} although the run has ended"
        path = call.arguments.get("path")
        if call.name == "write" and call.status == "finished" and not history.executed.get(str(path)):
            yield f"the write of {path} is reported as finished and was never executed"
    started = Counter(
        (event.run, event.data["toolCallId"]) for event in rows.events if event.stream == "tool" and event.data["phase"] == "start"
    )
    for (_, call_id), times in started.items():
        if times > 1:
            yield f"call {call_id} was started {times} times"
    steps: dict[int, list[int]] = defaultdict(list)
    for entry in rows.entries:
        if entry.run is not None and entry.step is not None:
            steps[entry.run].append(entry.step)
    for run in rows.runs:
        if sorted(steps[run.pk]) != list(range(run.steps)):
            yield f"run {run.run_id} has the steps {sorted(steps[run.pk])} of {run.steps}"


def r8_a_run_that_kills_its_workers_ends(rows: Rows, _: History) -> Iterator[str]:
    for run in rows.runs:
        if run.rescues > rows.most_rescues:
            yield f"run {run.run_id} was recovered {run.rescues} times"
        if run.rescues == rows.most_rescues and not (run.status == "aborted" or (run.status, run.reason) == ("error", "poisoned")):
            yield f"run {run.run_id} was recovered {run.rescues} times and is {run.status} ({run.reason})"


def r9_events_have_no_gaps(rows: Rows, _: History) -> Iterator[str]:
    for run, events in _with_events(rows):
        numbers = [event.seq for event in events]
        if numbers != list(range(1, run.seq + 1)):
            yield f"run {run.run_id} has the events {numbers} of {run.seq}"
        last = [event.seq for event in events if event.is_last]
        if run.ended and last != [numbers[-1] if numbers else 0]:
            yield f"run {run.run_id} has its end at {last} of {len(numbers)} events"
    for session, events in rows.events_of_sessions().items():
        cursors = [event.cursor for event in events]
        if cursors != list(range(1, len(cursors) + 1)):
            yield f"session {session} has the cursors {cursors}"


def r10_each_client_is_told_everything_once(rows: Rows, history: History) -> Iterator[str]:
    log = rows.events_of_sessions()
    ids = {run.pk: run.run_id for run in rows.runs}
    for watched in history.watched:
        rest = [run_text.event_tuple(event, ids) for event in log.get(watched.session_key, []) if event.cursor > watched.after]
        told = [run_text.payload_tuple(payload) for payload in watched.events]
        who = f"the {watched.client} of {watched.session_key}, after {watched.after},"
        if watched.frame_gap:
            yield f"{who}: {watched.frame_gap}"
        for want, got in zip(rest, told, strict=False):
            if want != got:
                yield f"{who} received {got}, expected {want}"
                break
        else:
            if len(told) > len(rest):
                yield f"{who} received {len(told) - len(rest)} events that are not in the log"
            elif watched.complete and len(told) < len(rest):
                yield f"{who} received {len(told)} of {len(rest)} events"


def r11_a_gap_is_told(_: Rows, history: History) -> Iterator[str]:
    for probed in history.probed:
        if not (probed.resync or probed.whole):
            yield f"cursor {probed.place} of {probed.session_key} can't be continued, and the client was not asked to resync"


def r12_only_slow_clients_are_cut_off(_: Rows, history: History) -> Iterator[str]:
    for watched in history.watched:
        if watched.closed == 1008 and not watched.slow:
            yield f"{watched.client} of {watched.session_key} was not slow but closed as a slow client"
        if watched.flooded and watched.closed != 1008:
            yield f"{watched.client} of {watched.session_key} did not read and was closed with {watched.closed}"


def r13_all_clients_see_the_same(_: Rows, history: History) -> Iterator[str]:
    seen: dict[tuple[str, int], tuple[str, object]] = {}
    for watched in history.watched:
        for payload in watched.events:
            told = run_text.payload_tuple(payload)
            first, other = seen.setdefault((watched.session_key, payload["cursor"]), (watched.client, told))
            if other != told:
                yield f"{watched.client} and {first} of {watched.session_key} saw different events as number {payload['cursor']}"


def _with_events(rows: Rows) -> Iterator[tuple[RunRow, list[EventRow]]]:
    events = rows.events_of_runs()
    for run in rows.runs:
        yield run, events[run.pk]


CHECKS: dict[str, Check] = {
    "R1": r1_no_accepted_run_is_lost,
    "R2": r2_one_run_per_key,
    "R3": r3_only_the_owner_writes,
    "R4": r4_in_order_and_within_the_lanes,
    "R5": r5_everything_comes_to_an_end,
    "R6": r6_a_tool_runs_at_most_once,
    "R8": r8_a_run_that_kills_its_workers_ends,
    "R9": r9_events_have_no_gaps,
    "R10": r10_each_client_is_told_everything_once,
    "R11": r11_a_gap_is_told,
    "R12": r12_only_slow_clients_are_cut_off,
    "R13": r13_all_clients_see_the_same,
    "text": run_text.text_is_whole,
    "replay": run_text.replay_matches_rows,
    "waits": parked_runs_wait_for_something,
}
