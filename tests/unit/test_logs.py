"""The format of log lines, and what never gets into one."""

import io
import json
import logging
import sys
import time
from collections.abc import Iterator

import pytest

from clawsite.infra.observability import logs
from clawsite.infra.observability.redact import remove_secrets


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """A configured root logger that writes here; pytest's is restored afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.delenv("CLAWSITE_LOG", raising=False)
    monkeypatch.delenv("CLAWSITE_LOG_LEVEL", raising=False)
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_text_record_has_one_newline_and_its_ids(written: io.StringIO) -> None:
    logs.configure("worker", stream=written)
    logging.getLogger("agents.worker").info("run claimed", extra={"run": 7, "session": "a b"})
    assert written.getvalue().count("\n") == 1
    assert written.getvalue().endswith('info    worker agents.worker run claimed run=7 session="a b"\n')


def test_json_records_have_the_same_fields(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWSITE_LOG", "json")
    logs.configure("web", stream=written)
    logging.getLogger("clawsite.gateway").warning("socket closed", extra={"user": 3, "code": 1008})
    line = json.loads(written.getvalue())
    assert line.pop("ts").endswith("Z")
    expected = {
        "level": "warning",
        "process": "web",
        "logger": "clawsite.gateway",
        "message": "socket closed",
        "user": 3,
        "code": 1008,
    }
    assert line == expected


def test_undeclared_fields_are_omitted(written: io.StringIO) -> None:
    logs.configure("worker", stream=written)
    logging.getLogger("agents").info("prompt stored", extra={"prompt": "my diary", "run": 1})
    assert "diary" not in written.getvalue()


def test_message_cannot_forge_a_second_record(written: io.StringIO) -> None:
    logs.configure("web", stream=written)
    logging.getLogger("x").info("name: %s", "joe\n2026-01-01T00:00:00Z error web x stolen")
    assert written.getvalue().count("\n") == 1


def test_traceback_is_indented_in_text_and_inline_in_json(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        raise ValueError("key sk-abcdefgh12345678")
    except ValueError:
        text, line = io.StringIO(), written
        logs.configure("web", stream=text)
        logging.getLogger("x").exception("failed")
        monkeypatch.setenv("CLAWSITE_LOG", "json")
        logs.configure("web", stream=line)
        logging.getLogger("x").exception("failed")
    assert all(follower.startswith("    ") for follower in text.getvalue().splitlines()[1:])
    assert "ValueError: key [redacted]" in text.getvalue()
    assert json.loads(line.getvalue())["exception"].endswith("ValueError: key [redacted]")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key sk-proj-abcDEF123456 used", "key [redacted] used"),
        ("token claw_0123456789abcdef", "token [redacted]"),
        ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [redacted]"),
        ("postgresql://claw:hunter2@db:5432/claw", "postgresql://claw:[redacted]@db:5432/claw"),
        ("redis://:hunter2@db:6379/0", "redis://:[redacted]@db:6379/0"),
        ('{"api_key": "0123456789"}', '{"api_key": "[redacted]"}'),
        ("password=correcthorse;", "password=[redacted];"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[redacted]"),
        ("run 0e4f1c9a-95d2-4b66-9f1c-3a6d1f0f6a11 claimed", "run 0e4f1c9a-95d2-4b66-9f1c-3a6d1f0f6a11 claimed"),
        ("risk-assessment and task-force stay", "risk-assessment and task-force stay"),
        ("input_tokens=1200000 is a count", "input_tokens=1200000 is a count"),
    ],
)
def test_credentials_are_redacted(text: str, kept: str) -> None:
    assert logs.redact(text) == kept


@pytest.mark.parametrize("unit", ["sk-", "eyJaaaaaaaa-", "://a:", "1234567:AA", "token="])
def test_redacting_hostile_text_is_fast(unit: str) -> None:
    """The text is as long as a tool result can be. It took minutes when a pattern searched to the end from every position."""
    begun = time.process_time()
    logs.redact((unit * 100_000)[:100_000])
    assert time.process_time() - begun < 5


def test_names_with_a_key_prefix_are_not_redacted() -> None:
    assert logs.redact("see sk-", []) == "see sk-"
    assert remove_secrets("pk-words-that-are-long-enough-to-be-one") == "pk-words-that-are-long-enough-to-be-one"
    assert remove_secrets("pk-words-that-are-long-enough-to-be-1") == "[redacted]"


def test_known_secrets_are_redacted_in_any_form() -> None:
    assert logs.redact("it was plainlookingword!", ["plainlookingword"]) == "it was [redacted]!"
    assert logs.redact(logs.redact("token=abcdef123456")) == "token=[redacted]"


def test_log_level_comes_from_the_environment(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWSITE_LOG_LEVEL", "error")
    logs.configure("web", stream=written)
    logging.getLogger("x").warning("not shown")
    assert written.getvalue() == ""


def test_logs_go_to_stderr_by_default(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written)
    logs.configure("web")
    logging.getLogger("x").info("here")
    assert "here" in written.getvalue()
