"""A token that may use only some tools leaves nothing for runs that may use more: by any method of the registry, or over REST."""

import base64
import itertools
import re
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings

from agents.context.history import to_message
from agents.context.untrusted_history import filter_entry
from agents.llm.messages import AttachedFile
from agents.tools import message as message_tool
from clawsite.accounts.groups import scopes_of
from clawsite.accounts.tokens import find_principal, issue_token
from clawsite.gateway.auth import limited_tokens
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import registry
from sessions_app.events.journal import NewEntry
from sessions_app.models import Attachment, Run, Session, SessionMember, SystemEvent, TranscriptEntry
from sessions_app.runs import queue
from sessions_app.runs.lifecycle import accept_run
from sessions_app.transcript.messages import read_model_history
from sessions_app.transcript.prompt_content import list_attachment_ids
from tests.harness.protocol import InProcessClient, NoResponse, running_gateway
from tests.harness.rest_client import RestClient
from tests.harness.tools import call_tool, make_tool_env
from tests.protocol.isolation import parameters, plain_calls

WORD = "quagmire"
METHODS = registry.list_methods()
CHANGING = sorted(name for name, method in METHODS.items() if method.limited is not None)
# Parameters that accept text; others that a method needs come from the table of the isolation matrix.
WORDY = ("message", "text", "content", "reason", "label", "title", "displayName", "command", "extraSystemPrompt")
OUTSIDE = re.compile(r"<<<outside (\w+)>>>.*?<<<end of outside \1>>>", re.DOTALL)
recalled_for = filter_entry
_numbers = itertools.count(1)


@pytest.fixture
def everybody(make_user):
    return make_user("User", "Operator", "Approver")


@pytest.fixture
def secret(everybody):
    return issue_token(everybody, "ci", sorted(scopes_of(everybody)), deny_tools=["exec"])[1]


def test_every_writing_method_declares_its_limited_token_rule():
    for name, method in METHODS.items():
        reads = not method.scopes or Scope.READ in method.scopes
        assert (method.limited is None) == reads, name
    left = {name for name in CHANGING if METHODS[name].limited is LimitedTokenRule.REFUSED}
    assert left >= {"wake", "agents.files.set", "chat.inject", "sessions.patch", "sessions.share", "node.invoke", "node.broadcast"}
    assert (METHODS["panic.stop"].limited, METHODS["panic.resume"].limited) == (LimitedTokenRule.HARMLESS, LimitedTokenRule.REFUSED)
    started = {name for name in CHANGING if METHODS[name].limited is LimitedTokenRule.CARRIED}
    assert started == {"agent", "chat.send", "sessions.send", "sessions.create", "sessions.compact", "tools.invoke"}


async def said(client, name):
    """Return the response to a call with the text in every field."""
    cell = next(plain_calls(METHODS[name]))
    words = {parameter: WORD for parameter in parameters(METHODS[name]) if parameter in WORDY}
    known = {"key": "agent:main:main", "sessionKey": "agent:main:main", "agentId": "main", "name": "AGENTS.md"}
    known = {parameter: value for parameter, value in known.items() if parameter in parameters(METHODS[name])}
    if name == "tools.invoke":
        known = {"name": "session_status", "timeoutMs": 1}
    if name == "sessions.create":  # with a key it may have no settings: see below
        known.pop("key")
    if name in ("chat.send", "sessions.send"):  # after the methods that stop runs
        file = base64.b64encode(WORD.encode()).decode()
        known["attachments"] = [{"type": "file", "mimeType": "text/plain", "fileName": "a.txt", "content": file}]
    try:
        return await client.request(name, {**cell.filled(None, None, f"limited-{next(_numbers)}"), **known, **words}, timeout=3.0)
    except NoResponse:
        return {"ok": True}


def found_words(user):
    """Return where a run without limits would get the text unmarked."""
    yield from SystemEvent.objects.filter(session__owner=user, text__contains=WORD)
    yield from TranscriptEntry.objects.filter(session__owner=user, text__contains=WORD).exclude(meta__has_key="tokenPrefix")
    yield from Run.objects.filter(owner=user).exclude(options__has_key="keyLimits")
    yield from (file for file in Path(settings.HOME).rglob("AGENTS.md") if WORD in file.read_text())

    for session in Session.objects.filter(owner=user):
        history = read_model_history(session.pk, session.generation)
        files = {one: AttachedFile("a.txt", WORD) for entry in history for one in list_attachment_ids(entry.content)}
        told = [repr(to_message(entry, files)) for each in history if (entry := recalled_for(each, {}))]
        yield from (words for words in told if WORD in OUTSIDE.sub("", words))


async def carried_out(claimed):
    """End the run as its worker would, after the model sent the word with a tool, read it with one, and answered it."""
    session = Session.objects.get(pk=claimed.session_id)
    await call_tool(make_tool_env(session, run_pk=claimed.pk), "message", message=WORD)
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    read = {"toolCallId": "c1", "toolName": "read", "isError": False}
    said = [
        NewEntry("message", "assistant", [call], "", uuid4().hex[:16]),
        NewEntry("tool_result", "toolResult", [], WORD, uuid4().hex[:16], read),
        NewEntry("message", "assistant", [{"type": "text", "text": WORD}], WORD, uuid4().hex[:16]),
    ]
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", entries=said)


async def left_by(client, user):
    answers = {}
    for name in CHANGING:
        answers[name] = await said(client, name)
    while turn := queue.claim_runs("w1", 5).runs:
        for claimed in turn:
            await carried_out(claimed)
    return answers, list(found_words(user))


async def test_no_method_leaves_unmarked_content_from_limited_token(everybody, secret):
    async with running_gateway():
        client = await InProcessClient.open(secret)
        answers, left = await left_by(client, everybody)
        client.disconnect()
    for name, answer in answers.items():
        refused = (answer.get("error") or {}).get("details", {}).get("code") == "TOKEN_LIMITED"
        assert refused == (METHODS[name].limited is LimitedTokenRule.REFUSED), (name, answer)
    assert left == []
    assert not SessionMember.objects.filter(session__owner=everybody).exists()
    started = [name for name in CHANGING if METHODS[name].limited is LimitedTokenRule.CARRIED]
    assert [name for name in started if not answers[name]["ok"]] == []
    assert Run.objects.filter(owner=everybody, options__has_key="keyLimits").count() >= 3
    assert Attachment.objects.filter(owner=everybody, session__isnull=False).exists()
    assert TranscriptEntry.objects.filter(session__owner=everybody, run=None, text=WORD).exists()  # with the tool


async def test_missing_limited_token_check_is_detected(everybody, secret, monkeypatch):
    """Deliberate fault: the rule for limited tokens is not checked."""
    monkeypatch.setattr(limited_tokens, "check_limited_token", lambda *_: None)
    async with running_gateway():
        client = await InProcessClient.open(secret)
        _, left = await left_by(client, everybody)
        client.disconnect()
    kinds = {type(one).__name__ for one in left}
    for file in (one for one in left if isinstance(one, Path)):
        file.unlink()
    assert {"TranscriptEntry", "PosixPath"} <= kinds


def with_files_kept(entry, reader):
    told = filter_entry(entry, reader)
    return replace(told, content=entry.content) if told else None


async def test_missing_origin_marks_on_tools_and_files_are_detected(everybody, secret, monkeypatch):
    """Deliberate faults: the message tool doesn't mark the origin of its text, and files stay with their messages."""
    monkeypatch.setattr(message_tool, "reader_origin", lambda *_: {})
    monkeypatch.setitem(globals(), "recalled_for", with_files_kept)
    async with running_gateway():
        client = await InProcessClient.open(secret)
        _, left = await left_by(client, everybody)
        client.disconnect()
    assert [one for one in left if isinstance(one, str) and "AttachedFile" in one]
    assert [one for one in left if isinstance(one, str) and one.startswith("AssistantMessage")]


async def test_message_commands_do_not_change_the_session(everybody, secret):
    async with running_gateway():
        client = await InProcessClient.open(secret)
        for text in ("/name quagmire", "/think low", "/model default"):
            key = f"limited-{next(_numbers)}"
            sent = {"sessionKey": "agent:main:main", "message": text, "idempotencyKey": key}
            answer = await client.request("chat.send", sent)
            assert answer["error"]["details"]["code"] == "TOKEN_LIMITED", answer
        client.disconnect()


SETTINGS = {"model": "demo/demo", "thinkingLevel": "high", "label": WORD, "displayName": WORD}


async def test_settings_are_accepted_only_for_unnamed_sessions(everybody, secret):
    free = issue_token(everybody, "free", ["operator.write"])[1]
    async with running_gateway():
        client, rest = await InProcessClient.open(secret), RestClient(secret)
        for name, value in SETTINGS.items():
            asked = {"key": "agent:main:named", name: value}
            answer = await client.request("sessions.create", asked)
            assert answer["error"]["details"]["code"] == "TOKEN_LIMITED", (name, answer)
            assert (await rest.post("/sessions", asked)).status_code == 403, name
        assert not Session.objects.filter(owner=everybody).exists()
        assert (await client.request("sessions.create", SETTINGS))["ok"]
        assert (await client.request("sessions.create", {"key": "agent:main:named"}))["ok"]
        client.disconnect()
        made = await RestClient(free).post("/sessions", {"key": "agent:main:free", **SETTINGS, "label": "mine"})
        assert (made.status_code, made.data["thinkingLevel"]) == (201, "high")
    named = Session.objects.get(owner=everybody, key="agent:main:named")
    assert (named.model, named.thinking_level, named.label, named.title) == ("", "", "", "")


async def test_rest_enforces_limited_token_rules(everybody, secret):
    free, bound = RestClient(issue_token(everybody, "free", ["operator.write"])[1]), RestClient(secret)
    async with running_gateway():
        session = (await bound.post("/sessions", {"key": "agent:main:rest"})).data["id"]
        assert (await bound.patch(f"/sessions/{session}", {"title": WORD})).status_code == 403
        assert (await bound.post("/tokens", {"name": "more", "scopes": ["operator.write"]})).status_code == 403
        assert (await bound.post(f"/sessions/{session}/messages", {"message": WORD}, Idempotency_Key="one")).status_code == 202
        assert (await free.patch(f"/sessions/{session}", {"title": "Mine"})).status_code == 200
    assert Run.objects.get(owner=everybody, session_id=session).options["keyLimits"]["deny"] == ["exec"]


def test_limited_token_content_is_untrusted_in_unlimited_run(everybody, secret, make_session):
    session, program = make_session(everybody), find_principal(secret).user
    accept_run(user=program, session=session, run_id="theirs", prompt=WORD)
    claimed = queue.claim_runs("w1", 1).runs[0]
    queue.write_step(
        claimed, to=Run.Status.COMPLETED, reason="stop", entries=[NewEntry("message", "assistant", [], f"{WORD}!", "m1")]
    )
    accept_run(user=everybody, session=session, run_id="mine", prompt="and now?")
    mine = queue.claim_runs("w1", 1).runs[0]
    history = read_model_history(session.pk, 1, mine.pk)
    asked, answered, own = (filter_entry(entry, {}) for entry in history)
    assert asked.text.startswith("Content from a program with the access token")
    assert answered.text.startswith("Content from your answer to a program with the access token")
    assert (answered.role, own.text, own.origin) == ("user", "and now?", {})
    assert [filter_entry(entry, history[0].origin) for entry in history] == history
