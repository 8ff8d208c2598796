"""The text of a run: as requested from the model, as stored, and as streamed in events. Pure."""

from collections.abc import Iterator
from typing import Any

from sessions_app.events.replay import RunView, ToolView, replay_events
from tests.faults.history import EventRow, History, Rows, RunRow
from tests.harness.fake_model import plan

SESSION_FIELDS = ("sessionKey", "sessionId", "cursor", "ts")  # fields of a `session` event besides its data
ALL_TOOLS_DONE = 1_000  # more results than any prompt asks for


def wanted_text(prompt: str) -> str:
    """Return the fake model's final answer to a prompt."""
    return "".join(plan(prompt, ALL_TOOLS_DONE)[2])


def stored_text(rows: Rows, run: RunRow) -> str:
    entries = [entry for entry in rows.entries if entry.run == run.pk and entry.role == "assistant"]
    return max(entries, key=lambda entry: entry.position).text if entries and run.status == "completed" else ""


def text_is_whole(rows: Rows, _: History) -> Iterator[str]:
    """The text is stored once, completely if the run completed, otherwise a prefix; and it is streamed as stored."""
    events = rows.events_of_runs()
    for run in rows.runs:
        wanted = wanted_text(run.prompt)
        texts = [entry.text for entry in rows.entries if entry.run == run.pk and entry.role == "assistant" and entry.text]
        if run.status == "completed" and texts != [wanted]:
            yield f"run {run.run_id} stored {texts} expected {wanted!r}"
        if run.status != "completed" and (len(texts) > 1 or not wanted.startswith(texts[0] if texts else "")):
            yield f"run {run.run_id} ended as {run.status} and stored {texts}, not a prefix of {wanted!r}"
        for fault in find_stream_faults(events[run.pk]):
            yield f"run {run.run_id}: {fault}"


def find_stream_faults(events: list[EventRow]) -> Iterator[str]:
    """Deltas of an attempt have no gap or overlap and add up to the stored message. A message that is not stored is voided
    before another one starts."""
    streamed: dict[tuple[str, str, int], str] = {}
    open_message = ""
    for event in (event for event in events if event.stream in ("assistant", "thinking")):
        data = event.data
        if "delta" not in data:
            open_message = ""
        elif open_message not in ("", data["messageId"]):
            yield f"message {data['messageId']} begins at seq {event.seq} while {open_message} is open"
        if "delta" in data:
            open_message = data["messageId"]
            key = (event.stream, data["messageId"], data["attempt"])
            so_far = streamed.get(key, "")
            if data["offset"] != len(so_far):
                yield f"the delta at seq {event.seq} says offset {data['offset']} behind {len(so_far)} characters"
            streamed[key] = so_far + data["delta"]
        elif data.get("final"):
            text = "".join(block.get("text", "") for block in data["message"]["content"] if block["type"] == "text")
            attempt = streamed.get(("assistant", data["messageId"], data["attempt"]), "")  # an earlier attempt was discarded
            if text != attempt:
                yield f"message {data['messageId']} is stored as {text!r} and was streamed as {attempt!r}"


def replay_matches_rows(rows: Rows, _: History) -> Iterator[str]:
    events = rows.events_of_runs()
    for run in rows.runs:
        told = replay_events({"seq": event.seq, "stream": event.stream, "data": event.data} for event in events[run.pk])
        told.attempt = 1  # no message is open
        if run.ended and told != (stored := view_from_rows(rows, run)):
            yield f"run {run.run_id} is streamed as {told} and stored as {stored}"


def view_from_rows(rows: Rows, run: RunRow) -> RunView:
    """Build the view of an ended run from transcript and tool calls only."""
    entries = sorted((entry for entry in rows.entries if entry.run == run.pk), key=lambda entry: entry.position)
    started = {event.data["toolCallId"] for event in rows.events if event.run == run.pk and event.stream == "tool"}
    calls = [call for call in rows.calls if call.run == run.pk and (call.status != "allowed" or call.call_id in started)]
    return RunView(
        status=run.status,
        reason=run.reason or "stop",
        error=run.error,
        prompt=run.prompt,
        messages=[(entry.message_id, entry.text) for entry in entries if entry.role == "assistant"],
        tools={
            call.call_id: ToolView(call.name, call.arguments, "finished" if call.status == "finished" else "failed", call.text)
            for call in calls
        },
        seq=run.seq,
    )


def event_tuple(event: EventRow, run_ids: dict[int, str]) -> tuple[Any, ...]:
    """Return a stored event in comparable form."""
    if event.run is None:
        return event.cursor, None, None, event.stream, event.ts, _facts(event.data)
    return event.cursor, run_ids.get(event.run), event.seq, event.stream, event.ts, event.data


def payload_tuple(payload: dict[str, Any]) -> tuple[Any, ...]:
    """Return a received `agent` or `session` event in the same form."""
    if "runId" not in payload:
        return payload["cursor"], None, None, "session", payload["ts"], _facts(payload)
    return payload["cursor"], payload["runId"], payload["seq"], payload["stream"], payload["ts"], payload["data"]


def _facts(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in SESSION_FIELDS}
