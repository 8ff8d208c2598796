"""Runs and events as printed in a terminal."""

import io
from typing import Any

import pytest

from clawsite.cli.output import AnswerPrinter, EventPrinter, format_event
from clawsite.client import Event


class Screen:
    def __init__(self, shared_output: bool = True) -> None:
        self.answer, self.notes = io.StringIO(), io.StringIO()
        self.printer = AnswerPrinter(self.answer, self.notes, shared_output=shared_output)

    def show(self, stream: str, **data: Any) -> None:
        self.printer.show(Event("agent:main:main", 1, 0, stream, data, "run", 1))

    def says(self, delta: str, message: str = "m1", attempt: int = 1) -> None:
        self.show("assistant", messageId=message, attempt=attempt, delta=delta)


@pytest.fixture
def screen() -> Screen:
    return Screen()


def test_deltas_form_the_answer_with_one_final_newline(screen: Screen) -> None:
    screen.says("Hel")
    screen.says("lo")
    screen.show("lifecycle", phase="end", aborted=False, usage={"input": 3})
    assert screen.answer.getvalue() == "Hello\n"
    assert (screen.printer.text, screen.printer.usage) == ("Hello", {"input": 3})


def test_tool_calls_are_notes_on_separate_lines(screen: Screen) -> None:
    screen.says("Let me look.")
    screen.show("tool", phase="start", name="read", toolCallId="c", args={"path": "a.txt"})
    screen.show("tool", phase="result", name="read", isError=True, result={"content": [{"type": "text", "text": "no such\nfile"}]})
    screen.says("It is not there.", message="m2")
    assert screen.answer.getvalue() == "Let me look.\nIt is not there."
    assert screen.notes.getvalue() == '· read {"path": "a.txt"}\n· read failed: no such file\n'
    assert screen.printer.text == "Let me look.\n\nIt is not there."


def test_waiting_call_shows_its_approval_request_and_decision(screen: Screen) -> None:
    approval = {"id": "3f2a0000-0000-4000-8000-000000000000", "expiresAt": 1, "needed": 1}
    screen.says("I look.")
    screen.show("tool", phase="waiting", name="exec", toolCallId="c", args={"command": "ls"}, approval=approval)
    screen.show("lifecycle", phase="waiting", reason="approval")
    for status, by, reason in (
        ("approved", "ben", ""),
        ("denied", "ben", "not today"),
        ("expired", None, "nobody answered in time"),
    ):
        decided = {"id": approval["id"], "status": status, "by": by, "reason": reason}
        screen.show("tool", phase="decided", name="exec", toolCallId="c", approval=decided)
    screen.show("lifecycle", phase="waiting", reason="frozen")
    assert screen.notes.getvalue().splitlines() == [
        '· exec is waiting for approval (claw approvals show 3f2a0000): {"command": "ls"}',
        "· exec: approved by ben",
        "· exec: denied by ben: not today",
        "· exec: expired: nobody answered in time",
        "· waiting: frozen",
    ]
    assert screen.answer.getvalue() == "I look.\n"


def test_notes_do_not_break_an_answer_on_another_stream() -> None:
    screen = Screen(shared_output=False)
    screen.says("Hel")
    screen.printer.note("· connection lost; resuming")
    screen.says("lo")
    assert screen.answer.getvalue() == "Hello"


def test_tool_call_ends_the_line_of_an_answer_on_another_stream() -> None:
    screen = Screen(shared_output=False)
    screen.says("Let me look.")
    screen.show("tool", phase="start", name="glob", toolCallId="c", args={})
    assert screen.answer.getvalue() == "Let me look.\n"


def test_text_of_an_interrupted_attempt_is_discarded(screen: Screen) -> None:
    screen.says("Half a sen")
    screen.show("assistant", messageId="m1", attempt=2, reset=True)
    screen.says("A whole sentence.", attempt=2)
    assert screen.printer.text == "A whole sentence."
    assert "asking the model again" in screen.notes.getvalue()


def test_message_that_was_not_streamed_is_shown_when_stored(screen: Screen) -> None:
    message = {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "At once."}]}
    screen.show("assistant", messageId="m1", attempt=1, final=True, message=message)
    assert screen.printer.text == "At once."


def test_streamed_message_is_not_repeated_when_stored(screen: Screen) -> None:
    screen.says("Once.")
    screen.show("assistant", messageId="m1", attempt=1, final=True, message={"content": [{"type": "text", "text": "Once."}]})
    assert screen.answer.getvalue() == "Once."


def test_escape_sequences_do_not_reach_the_terminal(screen: Screen) -> None:
    screen.says("\x1b]0;owned\x07 red\x1b[31m\tkept\n")
    assert screen.answer.getvalue() == "\ufffd]0;owned\ufffd red\ufffd[31m\tkept\n"


@pytest.mark.parametrize(
    ("stream", "data", "line"),
    [
        ("assistant", {"delta": "a\nb"}, '"a\\nb"'),
        ("lifecycle", {"phase": "end", "aborted": False, "stopReason": "stop"}, "end stopReason=stop"),
        ("lifecycle", {"phase": "error", "error": "no key", "kind": "auth"}, "error error=no key kind=auth"),
        ("tool", {"phase": "start", "name": "read", "args": {"path": "x"}}, 'start read {"path": "x"}'),
        (
            "tool",
            {"phase": "result", "name": "read", "isError": True, "result": {"content": [{"text": "gone"}]}},
            "result read failed: gone",
        ),
        ("tool", {"phase": "update", "name": "exec", "partialResult": "so\nfar"}, "update exec so far"),
        ("tool", {"phase": "waiting", "name": "exec", "args": {"command": "ls"}, "approval": {}}, 'waiting exec {"command": "ls"}'),
        (
            "tool",
            {"phase": "decided", "name": "exec", "approval": {"status": "denied", "by": "ben", "reason": "not today"}},
            "decided exec denied by ben: not today",
        ),
        ("session", {"change": "reset"}, "reset"),
    ],
)
def test_every_event_is_one_readable_line(stream: str, data: dict[str, Any], line: str) -> None:
    event = Event("agent:main:main", 4, 0, stream, data, "0123456789", 1)
    assert format_event(event, "12:00:00") == f"12:00:00 01234567 {stream:<9} {line}"


class Log:
    def __init__(self) -> None:
        self.out = io.StringIO()
        self.printer = EventPrinter(self.out)

    def show(self, stream: str, **data: Any) -> None:
        self.printer.show(Event("agent:main:main", 1, 0, stream, data, "run", 1))

    def lines(self) -> list[str]:
        """Return the lines without time and run."""
        return [line.split(maxsplit=3)[3] for line in self.out.getvalue().splitlines()]


def test_deltas_of_a_text_become_one_line_when_another_event_follows() -> None:
    log = Log()
    log.show("thinking", messageId="m1", attempt=1, delta="h")
    log.show("thinking", messageId="m1", attempt=1, delta="m")
    log.show("assistant", messageId="m1", attempt=1, delta="Hel")
    assert log.lines() == ['thinking  "hm"']
    log.show("assistant", messageId="m1", attempt=1, delta="lo")
    log.show("assistant", messageId="m1", attempt=1, final=True, message={})
    assert log.lines() == ['thinking  "hm"', 'assistant "Hello"', "assistant message stored"]


def test_texts_of_different_messages_attempts_and_calls_stay_separate() -> None:
    log = Log()
    log.show("assistant", messageId="m1", attempt=1, delta="a")
    log.show("assistant", messageId="m1", attempt=2, delta="b")
    log.show("assistant", messageId="m2", attempt=1, delta="c")
    log.show("toolcall", messageId="m2", attempt=1, delta="d", index=0)
    log.show("toolcall", messageId="m2", attempt=1, delta="e", index=1)
    log.printer.end()
    log.printer.end()
    assert [line[-3:] for line in log.lines()] == ['"a"', '"b"', '"c"', '"d"', '"e"']
