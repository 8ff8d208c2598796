"""A plausible finished run, stored as rows: two answers, thinking, parallel tool calls, a denied one, a retry."""

from datetime import timedelta
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import Event, Run, Session, ToolCall
from sessions_app.runs import lifecycle
from tools_app.policy.matcher import PolicyStep

USAGE = {"input": 1200, "output": 85, "costMicroUsd": 4200}
REFUSING = [
    PolicyStep("profile", "allow", Reason("policy.allow_entry", entry="*")).to_json(),
    PolicyStep("agent", "deny", Reason("policy.deny_entry", entry="write")).to_json(),
]
TimedEvent = tuple[int, str, dict[str, Any]]


def _stream_text(message: str, stream: str, text: str, begin: int, step: int, attempt: int = 1) -> list[TimedEvent]:
    parts = [part + " " for part in text.split(" ")]
    events: list[TimedEvent] = []
    offset = 0
    for place, part in enumerate(parts):
        events.append((begin + place * step, stream, {"messageId": message, "attempt": attempt, "delta": part, "offset": offset}))
        offset += len(part)
    return events


def _tool(call: str, name: str, begin: int, end: int, args: dict[str, Any], text: str, **meta: Any) -> list[TimedEvent]:
    failed = meta.get("verdict") == "refused"
    result = {"content": [{"type": "text", "text": text}], "details": {}}
    return [
        (begin, "tool", {"phase": "start", "name": name, "toolCallId": call, "args": args}),
        (end, "tool", {"phase": "result", "name": name, "toolCallId": call, "isError": failed, "result": result, "meta": meta}),
    ]


def _final(message: str, text: str, ts: int, attempt: int = 1) -> TimedEvent:
    content = [{"type": "text", "text": text}]
    wire = {"role": "assistant", "content": content, "messageId": message, "provider": "openai", "model": "gpt-5", "usage": USAGE}
    return ts, "assistant", {"messageId": message, "attempt": attempt, "final": True, "message": wire}


def recorded_events(*, ended: bool = True) -> list[TimedEvent]:
    """Return (milliseconds since acceptance, stream, data) in order."""
    look, answer = (
        "I look at both files first.",
        "Both files say the same, so nothing has to be changed. I may not write here anyway.",
    )
    events: list[TimedEvent] = [
        (0, "lifecycle", {"phase": "accepted", "prompt": "Compare the two notes"}),
        (900, "lifecycle", {"phase": "start", "startedAt": 900}),
        *_stream_text("m1", "thinking", "Two notes are meant, so I have to read them before I say anything.", 1900, 60),
        *_stream_text("m1", "assistant", look, 3000, 70),
        _final("m1", look, 3600),
        *_tool("c1", "read", 3700, 4600, {"path": "notes/one.md"}, "milk\nbread"),
        *_tool("c2", "read", 3750, 5200, {"path": "notes/two.md"}, "milk\nbread"),
        (5900, "assistant", {"messageId": "m2", "attempt": 2, "reset": True}),
        (5900, "lifecycle", {"phase": "retry", "kind": "rate_limit", "attempt": 2, "delayMs": 1000}),
        *_tool(
            "c3", "write", 7000, 7050, {"path": "notes/one.md", "content": "milk"}, "not allowed", verdict="refused", layer="agent"
        ),
        *_stream_text("m2", "assistant", answer, 7900, 120, attempt=2),
    ]
    if ended:
        events += [_final("m2", answer, 10400, 2), (10450, "lifecycle", {"phase": "end", "aborted": False, "stopReason": "stop"})]
    return sorted(events, key=lambda each: each[0])


def wire_events(events: list[TimedEvent]) -> list[dict[str, Any]]:
    """Return the events in the format of `runs.events`."""
    begin = 1_700_000_000_000
    return [{"seq": n, "cursor": n, "stream": s, "ts": begin + ts, "data": data} for n, (ts, s, data) in enumerate(events, 1)]


def create_recorded_run(user: User, session: Session, run_id: str = "k1", *, ended: bool = True, status: str = "completed") -> Run:
    """Store the run with its events and tool calls."""
    accepted = lifecycle.accept_run(user=user, session=session, run_id=run_id, prompt="Compare the two notes")
    begin = clock.now() - timedelta(seconds=11)
    events = recorded_events(ended=ended)
    Event.objects.filter(run=accepted.pk).delete()
    first = Session.objects.values_list("cursor", flat=True).get(pk=session.pk)
    Event.objects.bulk_create(
        Event(session=session, run_id=accepted.pk, cursor=first + n, seq=n, stream=stream, data=data, ts=clock.to_ms(begin) + ts)
        for n, (ts, stream, data) in enumerate(events, 1)
    )
    Session.objects.filter(pk=session.pk).update(cursor=first + len(events))
    at = lambda ms: begin + timedelta(milliseconds=ms)  # noqa: E731
    calls = [("c1", "read", "finished", 3700, 4600), ("c2", "read", "finished", 3750, 5200), ("c3", "write", "refused", None, 7050)]
    ToolCall.objects.bulk_create(
        ToolCall(
            run_id=accepted.pk,
            session=session,
            call_id=call,
            position=place,
            name=name,
            arguments={"path": "notes"},
            status=state,
            refused_by="agent" if state == "refused" else "",
            verdict={"kept": [], "trace": {name: REFUSING if state == "refused" else REFUSING[:1]}},
            policy_version=3,
            lease_token=1,
            created_at=at(3600),
            started_at=at(start) if start else None,
            ended_at=at(end),
        )
        for place, (call, name, state, start, end) in enumerate(calls)
    )
    Run.objects.filter(pk=accepted.pk).update(
        status=status if ended else "running",
        seq=len(events),
        model="openai/gpt-5",
        input_tokens=2400,
        output_tokens=170,
        cost_microusd=8400,
        accepted_at=begin,
        started_at=at(900),
        ended_at=at(10450) if ended else None,
        running_seconds=9.55 if ended else 0,
        error="connection refused by 10.0.0.7" if status == "error" else "",
        reason="unavailable" if status == "error" else "stop",
    )
    return Run.objects.get(pk=accepted.pk)
