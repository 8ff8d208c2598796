"""A run's events as text in a terminal: the answer on one stream, everything about it on another. No sockets."""

import json
from typing import Any, TextIO

from clawsite.client import Event

SHORT = 100


class AnswerPrinter:
    """Writes the answer as it grows. Feed it a run's events in order."""

    def __init__(self, answer: TextIO, notes: TextIO) -> None:
        self.text = ""  # of the messages shown so far
        self.error = ""
        self.aborted = False
        self.usage: dict[str, Any] = {}
        self._answer = answer
        self._notes = notes
        self._message = ("", 0)
        self._at_line_start = True

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
        self.end_line()
        self._notes.write(f"{line}\n")
        self._notes.flush()

    def end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    def _assistant(self, data: dict[str, Any]) -> None:
        if data.get("reset"):
            if self._message[0] == data["messageId"] and self._message != ("", 0):
                self.note("· the answer broke off; the model is asked again")
            self._message = (data["messageId"], data["attempt"])
        elif "delta" in data:
            message = (data["messageId"], data["attempt"])
            if message != self._message:
                self.end_line()
                self._message = message
            self._write(data["delta"])
        elif data.get("final") and data["messageId"] != self._message[0]:  # stored without having been streamed
            self.end_line()
            self._message = (data["messageId"], data["attempt"])
            self._write(message_text(data["message"]))

    def _tool(self, data: dict[str, Any]) -> None:
        if data["phase"] == "start":
            self.note(f"· {data['name']} {short(json.dumps(data.get('args', {}), ensure_ascii=False))}")
        elif data["phase"] == "result" and data.get("isError"):
            self.note(f"· {data['name']} failed: {short(result_text(data))}")

    def _lifecycle(self, data: dict[str, Any]) -> None:
        match data["phase"]:
            case "waiting":
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
        if text:
            self.text += text
            self._answer.write(text)
            self._answer.flush()
            self._at_line_start = text.endswith("\n")


def event_line(event: Event, clock: str) -> str:
    """One event as one line: time, run, stream, what happened."""
    run = event.run_id[:8] or "-"
    return f"{clock} {run:<8} {event.stream:<9} {_what(event)}"


def _what(event: Event) -> str:
    data = event.data
    if "delta" in data:
        return json.dumps(data["delta"], ensure_ascii=False)
    if data.get("reset"):
        return f"attempt {data.get('attempt')} begins, what was written is void"
    if data.get("final"):
        return "message stored"
    head = str(data.get("phase") or data.get("change") or "")
    if event.stream == "tool":
        detail = json.dumps(data.get("args", {}), ensure_ascii=False) if head == "start" else result_text(data)
        failed = "failed: " if data.get("isError") else ""
        return f"{head} {data.get('name', '')} {failed}{short(detail, 200)}".rstrip()
    facts = {
        name: value
        for name, value in data.items()
        if name in ("reason", "kind", "error", "stopReason", "attempt", "aborted") and value
    }
    return " ".join([head, *(f"{name}={short(str(value), 200)}" for name, value in facts.items())])


def message_text(message: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in message.get("content", []) if block.get("type") == "text")


def result_text(data: dict[str, Any]) -> str:
    content = (data.get("result") or data.get("partialResult") or {}).get("content", [])
    return " ".join(block.get("text", "") for block in content if isinstance(block, dict))


def short(text: str, most: int = SHORT) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
