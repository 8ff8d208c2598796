"""Random bodies for /v1 and webhooks: accepted or rejected in the documented format, without internal errors.

CLAWSITE_V1_EXAMPLES sets the number of bodies per URL. No worker runs: an accepted run counts as ended immediately.
"""

import asyncio
import base64
import json
import logging
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import AsyncClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.tokens import issue_token
from clawsite.api.openai import chat_completions, content_parts, responses
from clawsite.api.openai.run_updates import CompletionUsage, RunEnded
from clawsite.connectors.webhook import requests
from tests.fuzz.bodies import nearly
from tests.fuzz.chance import SEED
from tests.harness.protocol import running_gateway
from tests.harness.webhooks import create_webhook

EXAMPLES = int(os.environ.get("CLAWSITE_V1_EXAMPLES", "40"))
# No shrinking: a failing body is easy to read as it is.
AS_MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)

FILE = "data:text/plain;base64," + base64.b64encode(b"seven").decode()
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "b\\u0000"}'}}
CHAT = (
    {
        "model": "clawsite",
        "messages": [
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hello"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
                ],
            },
            {"role": "user", "content": [{"type": "file", "file": {"filename": "a.txt", "file_data": FILE}}]},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "ada",
        "temperature": 0.5,
        "top_p": 1,
        "max_tokens": 10,
        "max_completion_tokens": 10,
        "stop": ["x"],
        "seed": 7,
        "n": 1,
        "modalities": ["text"],
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    },
    {
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
        ],
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": False,
    },
)
RESPONSES = (
    {
        "model": "clawsite",
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "hello"},
                    {"type": "input_file", "filename": "a.txt", "file_data": FILE},
                    {"type": "input_image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
                ],
            },
        ],
        "instructions": "be brief",
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}},
        "max_output_tokens": 10,
        "stream": True,
        "user": "ada",
    },
    {
        "input": [
            {"role": "user", "content": "hello"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x"},
        ],
        "tools": [{"type": "function", **FUNCTION}],
        "tool_choice": {"type": "function", "name": "f"},
    },
    {"input": "hello", "previous_response_id": None, "background": False, "conversation": None},
)
V1 = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}
AGENT = {
    "message": "hello",
    "name": "News",
    "wakeMode": "now",
    "sessionKey": "hook:one",
    "deliver": True,
    "channel": "last",
    "model": "demo/clawsite",
    "thinking": "low",
    "timeoutSeconds": 5,
    "agentId": "main",
    "waitForCompletion": True,
}
WAKE = {"text": "hello", "mode": "now"}
EVENT = {"action": "opened", "issue": {"title": "It broke", "labels": [{"name": "bug"}]}}
TEMPLATES = {"message_template": "{{action}}: {{issue.labels[0].name}} {{issue}}", "session_key_template": "{{issue.title}}"}
HOOKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "agent": (AGENT, {"allow_request_session_key": True}),
    "wake": (WAKE, {}),
    "mapped": (EVENT, TEMPLATES),
    "whole": (EVENT, {"action": "wake"}),
    "signed": (EVENT, {"signature": "plain", "signature_header": "X-Signature", "token": False}),
    "timed": (EVENT, {"signature": "timed", "signature_header": "X-Signature", **TEMPLATES}),
}


@dataclass(frozen=True)
class Door:
    """Sends requests to this process's URLs, through all middleware."""

    runner: asyncio.Runner
    token: str
    caplog: pytest.LogCaptureFixture

    def ask(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> tuple[int, str]:
        self.caplog.clear()
        status, text = self.runner.run(self._ask(path, body, headers or {"Authorization": f"Bearer {self.token}"}))
        failed = [record for record in self.caplog.records if record.exc_info or record.levelno >= logging.ERROR]
        assert not failed, f"{body[:2000]!r} made it fail: {failed[0].getMessage()}: {failed[0].exc_info}"
        return status, text

    async def _ask(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
        client = AsyncClient(raise_request_exception=False)
        answer = await client.post(path, body, content_type="application/json", headers=headers)
        content = b"".join([piece async for piece in answer]) if answer.streaming else answer.content
        return answer.status_code, content.decode()

    def v1(self, path: str, body: bytes) -> None:
        status, text = self.ask(path, body)
        if status == 200:
            return
        error = json.loads(text)["error"]
        assert status in (400, 404), (status, error)
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"] and isinstance(error["message"], str) and error["type"] == "invalid_request_error"
        assert all(isinstance(error[name], str | None) for name in ("param", "code"))


async def _ended_at_once(_runtime: Any, _started: Any) -> AsyncGenerator[RunEnded, None]:
    yield RunEnded("stop", CompletionUsage())


@pytest.fixture
def door(user, settings, caplog, monkeypatch):
    settings.MAX_QUEUED_PER_USER = 1_000_000
    for module in (chat_completions, responses):
        monkeypatch.setattr(module, "follow_run", _ended_at_once)
    monkeypatch.setattr(requests, "MAX_WAIT_SECONDS", 0.001)
    caplog.set_level(logging.WARNING)
    with asyncio.Runner() as runner:
        inside = running_gateway()
        runner.run(inside.__aenter__())
        yield Door(runner, issue_token(user, "fuzz", sorted(scopes_of(user)))[1], caplog)
        runner.run(inside.__aexit__(None, None, None))


def sent(*examples: Any) -> st.SearchStrategy[bytes]:
    return nearly(*examples).map(lambda body: json.dumps(body).encode()) | st.binary(max_size=20)


def ask_at_random(door: Door, path: str) -> None:
    @seed(SEED)
    @AS_MANY
    @given(sent(*V1[path]))
    def ask(body: bytes) -> None:
        door.v1(path, body)

    ask()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", V1)
def test_no_body_crashes_v1(door, path):
    ask_at_random(door, path)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("slug", HOOKS)
def test_no_body_crashes_a_webhook(door, make_user, slug):
    example, fields = HOOKS[slug]
    made = create_webhook(make_user("Operator"), slug, **fields)

    @seed(SEED)
    @AS_MANY
    @given(sent(example))
    def ask(body: bytes) -> None:
        status, text = door.ask(f"/hooks/{slug}", body, made.headers(body))
        answer = json.loads(text)
        assert answer["ok"] is (status in (200, 202)), (status, answer)
        assert answer["ok"] or (status == 400 and answer["error"] and isinstance(answer["error"], str)), (status, answer)

    ask()


@pytest.mark.parametrize(("path", "number"), [(path, number) for path, examples in V1.items() for number in range(len(examples))])
def test_unmodified_sample_bodies_are_accepted(door, path, number):
    """If samples were invalid, all bodies would be rejected at that fault, and nothing after it would be tested."""
    status, text = door.ask(path, json.dumps(V1[path][number]).encode())
    assert status == 200, text


def test_fuzz_detects_failing_parser(door, monkeypatch):
    """Deliberate fault: a set, in which a list can't be looked up."""
    monkeypatch.setattr(content_parts, "TEXT_TYPES", set(content_parts.TEXT_TYPES))
    with pytest.raises(AssertionError, match="unhashable type"):
        ask_at_random(door, "/v1/chat/completions")


def test_fuzz_detects_failing_webhook(door, make_user, monkeypatch):
    """Deliberate fault: an internal error, for which Django returns a page."""
    monkeypatch.setattr(requests, "render_template", lambda *_: 1 / 0)
    made = create_webhook(make_user("Operator"), "mapped", **TEMPLATES)
    with pytest.raises(AssertionError, match="made it fail"):
        door.ask("/hooks/mapped", b"{}", made.headers(b"{}"))
