"""A run's events as text in a terminal: the answer on one stream, everything about it on another; and plain tables. No sockets."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, TextIO

from clawsite.client.client import Event
from tools_app.core.hidden_characters import has_hidden_characters

SHORT_LENGTH = 100
# Escape sequences could retitle, clear or answer for the reader's terminal, and a model repeats what a web page told it.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class AnswerPrinter:
    """Writes the answer as it grows. Feed it a run's events in order.

    Where both streams lead to `one_place` a note ends the line the answer is at; an answer that goes elsewhere is left as it is,
    but for the line of a tool call, which comes after a whole message.
    """

    def __init__(self, answer: TextIO, notes: TextIO, *, one_place: bool = False) -> None:
        self.error = ""
        self.aborted = False
        self.usage: dict[str, Any] = {}
        self._answer = answer
        self._notes = notes
        self._shared_output = one_place
        self._message = ("", 0)
        self._texts: list[str] = []  # of the messages shown so far
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
        """A line about the run, never inside a line of the answer."""
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
                self.note("· the answer broke off; the model is asked again")
                self._texts.pop()
            self._begin(data)
        elif "delta" in data:
            if (data["messageId"], data["attempt"]) != self._message:
                self._begin(data)
            self._write(data["delta"])
        elif data.get("final") and data["messageId"] != self._message[0]:  # stored without having been streamed
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
                asked = f"claw approvals show {data['approval']['id'][:8]}"
                self.note(f"· {data['name']} waits for an approval ({asked}): {_format_arguments(data)}")
            case "decided":
                self.note(f"· {data['name']}: {describe_decision(data['approval'])}")
            case "result" if data.get("isError"):
                self.note(f"· {data['name']} failed: {shorten(result_text(data))}")

    def _lifecycle(self, data: dict[str, Any]) -> None:
        match data["phase"]:
            case "waiting" if data.get("reason") != "approval":  # its tool call has said so, and which one it is
                self.note(f"· waiting: {data.get('reason', '')}")
            case "retry":
                self.note(f"· {data.get('kind', 'failure')}; trying again in {data.get('delayMs', 0) / 1000:g} s")
            case "rescued":
                self.note("· the worker was lost; another one goes on")
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
    """Events as lines, in order. The pieces of one text that follow each other are one line, told when something else comes."""

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
        """Print the text that has not come to its end."""
        if first := self._first:
            self._first = None
            self._print(replace(first, data={**first.data, "delta": "".join(self._pieces)}))

    def _print(self, event: Event) -> None:
        moment = datetime.fromtimestamp(event.ts / 1000).isoformat(sep=" ", timespec="milliseconds")
        self._out.write(f"{format_event(event, moment)}\n")
        self._out.flush()


def _text_key(event: Event) -> tuple[Any, ...] | None:
    """Which text the event is a piece of; None when it is something else."""
    data = event.data
    if "delta" not in data:
        return None
    return event.run_id, event.stream, data.get("messageId"), data.get("attempt"), data.get("index")


def format_event(event: Event, clock: str) -> str:
    """One event as one line: time, run, stream, what happened."""
    run = event.run_id[:8] or "-"
    return strip_control_characters(f"{clock} {run:<8} {event.stream:<9} {_describe_event(event)}")


def _describe_event(event: Event) -> str:
    data = event.data
    if "delta" in data:
        return json.dumps(data["delta"], ensure_ascii=False)
    if data.get("reset"):
        return f"attempt {data.get('attempt')} begins, what was written is void"
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
    """For what somebody decides about: whatever would not be seen, or would turn the line around, is spelled out."""
    return "".join(letter if letter in "\n\t" or _is_visible(letter) else f"⟨U+{ord(letter):04X}⟩" for letter in text)


def escape_invisible_line(text: str) -> str:
    """The same for what has one line: a line break in it could pretend to be the next thing we say."""
    return "".join(letter if _is_visible(letter) else f"⟨U+{ord(letter):04X}⟩" for letter in text)


def _is_visible(letter: str) -> bool:
    return letter.isprintable() and not has_hidden_characters(letter)


def message_text(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message.get("content", []) if block.get("type") == "text")


def result_text(data: dict[str, Any]) -> str:
    """Of a result, or of what there is of it so far."""
    content = data["result"].get("content", []) if data.get("result") else [{"text": data.get("partialResult") or ""}]
    return " ".join(block.get("text", "") for block in content if isinstance(block, dict))


def describe_decision(approval: dict[str, Any]) -> str:
    """What became of a question, for who follows the run."""
    who = f"{approval['status']} by {approval['by']}" if approval.get("by") else approval["status"]
    return f"{who}: {shorten(approval['reason'])}" if approval.get("reason") else who


def _format_arguments(data: dict[str, Any], most: int = SHORT_LENGTH) -> str:
    return shorten(json.dumps(data.get("args", {}), ensure_ascii=False), most)


def shorten(text: str, most: int = SHORT_LENGTH) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def print_table(rows: Iterable[tuple[str, ...]]) -> None:
    """Columns of equal width, as wide as needed."""
    lines = [tuple(strip_control_characters(cell) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
