"""Render a run's events as terminal text, with the answer and notes on separate streams, and plain tables. Uses no sockets."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TextIO

from clawsite.client import Event
from tools_app.core.hidden_characters import has_hidden_characters

SHORT_LENGTH = 100
# Escape sequences could retitle, clear or send input to the reader's terminal, and a model may repeat them from a web page.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AnswerPrinter:
    """Writes the answer as it is streamed. Feed it a run's events in order.

    With `shared_output` (both streams go to one terminal or file), a note first ends the current line of the answer. Otherwise
    the answer is left as it is, except that a tool call, which follows a whole message, ends its line.
    """

    def __init__(self, answer: TextIO, notes: TextIO, *, shared_output: bool = False) -> None:
        self.error = ""
        self.aborted = False
        self.usage: dict[str, Any] = {}
        self._answer = answer
        self._notes = notes
        self._shared_output = shared_output
        self._message = ("", 0)
        self._texts: list[str] = []  # texts of the messages shown so far
        self._at_line_start = True

    @property
    def text(self) -> str:
        return "\n\n".join(text for text in self._texts if text)

    def show(self, event: Event) -> None:
        match event.stream:
            case "assistant":
                self._assistant(event.data)
            case "tool":
                self._tool(event.data)
            case "lifecycle":
                self._lifecycle(event.data)

    def note(self, line: str) -> None:
        """Print a line about the run, never inside a line of the answer."""
        if self._shared_output:
            self.end_line()
        self._notes.write(f"{strip_control_characters(line)}\n")
        self._notes.flush()

    def end_line(self) -> None:
        if not self._at_line_start:
            self._write_raw("\n")

    def _assistant(self, data: dict[str, Any]) -> None:
        if data.get("reset"):
            if self._message[0] == data["messageId"]:
                self.note("· the answer was interrupted; asking the model again")
                self._texts.pop()
            self._begin(data)
        elif "delta" in data:
            if (data["messageId"], data["attempt"]) != self._message:
                self._begin(data)
            self._write(data["delta"])
        elif data.get("final") and data["messageId"] != self._message[0]:  # stored without being streamed
            self._begin(data)
            self._write(message_text(data["message"]))

    def _begin(self, data: dict[str, Any]) -> None:
        self.end_line()
        self._message = (data["messageId"], data["attempt"])
        self._texts.append("")

    def _tool(self, data: dict[str, Any]) -> None:
        match data["phase"]:
            case "start":
                self.end_line()
                self.note(f"· {data['name']} {_format_arguments(data)}")
            case "waiting":
                self.end_line()
                hint = f"claw approvals show {data['approval']['id'][:8]}"
                self.note(f"· {data['name']} is waiting for approval ({hint}): {_format_arguments(data)}")
            case "decided":
                self.note(f"· {data['name']}: {describe_decision(data['approval'])}")
            case "result" if data.get("isError"):
                self.note(f"· {data['name']} failed: {shorten(result_text(data))}")

    def _lifecycle(self, data: dict[str, Any]) -> None:
        match data["phase"]:
            case "waiting" if data.get("reason") != "approval":  # the tool call has already been shown as waiting
                self.note(f"· waiting: {data.get('reason', '')}")
            case "retry":
                self.note(f"· {data.get('kind', 'failure')}; retrying in {data.get('delayMs', 0) / 1000:g} s")
            case "rescued":
                self.note("· the worker was lost; another one continues")
            case "error":
                self.end_line()
                self.error = str(data.get("error") or "the run failed")
            case "end":
                self.end_line()
                self.aborted = bool(data.get("aborted"))
                self.usage = data.get("usage") or {}

    def _write(self, text: str) -> None:
        self._texts[-1] += text
        self._write_raw(text)

    def _write_raw(self, text: str) -> None:
        self._answer.write(strip_control_characters(text))
        self._answer.flush()
        self._at_line_start = text.endswith("\n") if text else self._at_line_start


class EventPrinter:
    """Prints events as lines, in order. Consecutive deltas of one text become one line, printed when another event follows."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._first: Event | None = None
        self._pieces: list[str] = []

    def show(self, event: Event) -> None:
        if self._first and _text_key(event) == _text_key(self._first):
            self._pieces.append(event.data["delta"])
            return
        self.end()
        if _text_key(event):
            self._first, self._pieces = event, [event.data["delta"]]
        else:
            self._print(event)

    def end(self) -> None:
        """Print text that is still being collected."""
        if first := self._first:
            self._first = None
            self._print(replace(first, data={**first.data, "delta": "".join(self._pieces)}))

    def _print(self, event: Event) -> None:
        moment = datetime.fromtimestamp(event.ts / 1000).isoformat(sep=" ", timespec="milliseconds")
        self._out.write(f"{format_event(event, moment)}\n")
        self._out.flush()


def _text_key(event: Event) -> tuple[Any, ...] | None:
    """Return what identifies the text this delta belongs to, or None if the event is not a delta."""
    data = event.data
    if "delta" not in data:
        return None
    return event.run_id, event.stream, data.get("messageId"), data.get("attempt"), data.get("index")


def format_event(event: Event, clock: str) -> str:
    """Format one event as one line: time, run, stream, what happened."""
    run = event.run_id[:8] or "-"
    return strip_control_characters(f"{clock} {run:<8} {event.stream:<9} {_describe_event(event)}")


def _describe_event(event: Event) -> str:
    data = event.data
    if "delta" in data:
        return json.dumps(data["delta"], ensure_ascii=False)
    if data.get("reset"):
        return f"attempt {data.get('attempt')} starts, earlier text is discarded"
    if data.get("final"):
        return "message stored"
    head = str(data.get("phase") or data.get("change") or "")
    if event.stream == "tool":
        match head:
            case "start" | "waiting":
                detail = _format_arguments(data, 200)
            case "decided":
                detail = describe_decision(data["approval"])
            case _:
                detail = ("failed: " if data.get("isError") else "") + shorten(result_text(data), 200)
        return f"{head} {data.get('name', '')} {detail}".rstrip()
    facts = {
        name: value
        for name, value in data.items()
        if name in ("reason", "kind", "error", "stopReason", "attempt", "aborted") and value
    }
    return " ".join([head, *(f"{name}={shorten(str(value), 200)}" for name, value in facts.items())])


def strip_control_characters(text: str) -> str:
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_invisible(text: str) -> str:
    """Spell out invisible and direction-changing characters in text that approvers rely on."""
    return "".join(letter if letter in "\n\t" or _is_visible(letter) else f"⟨U+{ord(letter):04X}⟩" for letter in text)


def escape_invisible_line(text: str) -> str:
    """Like `escape_invisible`, but for single-line text, where a line break could fake another line of output."""
    return "".join(letter if _is_visible(letter) else f"⟨U+{ord(letter):04X}⟩" for letter in text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() and not has_hidden_characters(letter)


def message_text(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message.get("content", []) if block.get("type") == "text")


def result_text(data: dict[str, Any]) -> str:
    """Return the text of a result or partial result."""
    content = data["result"].get("content", []) if data.get("result") else [{"text": data.get("partialResult") or ""}]
    return " ".join(block.get("text", "") for block in content if isinstance(block, dict))


def describe_decision(approval: dict[str, Any]) -> str:
    """Describe the outcome of an approval request."""
    who = f"{approval['status']} by {approval['by']}" if approval.get("by") else approval["status"]
    return f"{who}: {shorten(approval['reason'])}" if approval.get("reason") else who


def _format_arguments(data: dict[str, Any], limit: int = SHORT_LENGTH) -> str:
    return shorten(json.dumps(data.get("args", {}), ensure_ascii=False), limit)


def shorten(text: str, limit: int = SHORT_LENGTH) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Print rows in aligned columns."""
    lines = [tuple(strip_control_characters(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
