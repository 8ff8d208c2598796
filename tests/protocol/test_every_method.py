"""Cases that apply to every method, generated from the registry: they fail for a method that lacks them.

Successful calls and repeated requests are searched for in the conversations and tests of this directory; method_coverage.py defines
what counts.
"""

from pathlib import Path
from typing import Any

import pytest

from clawsite.gateway.server import registry
from clawsite.infra import db
from sessions_app.models import Run, Session
from tests.protocol.method_coverage import requests_in_scripts, requests_in_tests

pytestmark = pytest.mark.dialect

HERE = Path(__file__).parent
WITH_WORKERS = [HERE.parent / "journeys" / "test_tools_invoke.py"]  # methods that need more than a gateway
# What a request needs besides the object, so that it fails because of the object.
NEEDED: dict[str, dict[str, Any]] = {
    "agent": {"message": "hi", "idempotencyKey": "foreign"},
    "approval.resolve": {"decision": "deny", "kind": "exec"},
    "chat.inject": {"message": "hi"},
    "chat.send": {"message": "hi", "idempotencyKey": "foreign"},
    "exec.approval.resolve": {"decision": "deny"},
    "sessions.send": {"message": "hi"},
    "sessions.share": {"username": "nobody", "role": None},
    "tools.invoke": {"name": "read"},
}
# Methods whose ID belongs to no user, or is only used as the caller's own text.
NO_OBJECT = {"exec.approval.request"}
SESSION, RUN, OTHER = {"session_id"}, {"run_id"}, {"id"}


SHOWN = [
    *(shown for file in sorted(HERE.glob("*.jsonl")) for shown in requests_in_scripts(file)),
    *(shown for file in [*sorted(HERE.rglob("test_*.py")), *WITH_WORKERS] for shown in requests_in_tests(file)),
]
METHODS = registry.list_methods()
FOR_OPERATORS = {name: method for name, method in METHODS.items() if method.scopes}  # other methods are for nodes


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_has_a_success_test(name):
    assert any(shown.method == name for shown in SHOWN), f"write a conversation in which {name} succeeds"


@pytest.mark.parametrize("name", sorted(name for name, each in METHODS.items() if "idempotency_key" in each.params.model_fields))
def test_every_idempotent_method_has_a_repeat_test(name):
    sent = [(shown.test, shown.key) for shown in SHOWN if shown.method == name and shown.key]
    assert len(set(sent)) < len(sent), f"write a conversation in which {name} is sent twice with the same key"


CODE = """
async def test_this(socket, live):
    wish = {"a": 1, "idempotencyKey": "k"}
    await socket.call("shown", {**wish, "b": 2})
    await socket.call("shown", wish)
    await socket.request("not.looked.at", wish)
    async with live.client(ada) as client:
        await client.request("of.a.client", {"idempotencyKey": "k2"})
    with pytest.raises(AssertionError):
        await socket.call("refused", wish)
    assert "named" in METHODS

async def never_used(socket):
    await socket.call("not.a.test")
"""
TALK = """
{"conversation": "one"}
{"send": {"id": "1", "method": "twice", "idempotencyKey": "k"}}
{"expect": {"id": "1", "ok": true}}
{"expect": {"id": "1", "ok": true}}
{"send": {"id": "2", "method": "refused", "params": {}}}
{"expect": {"id": "2", "ok": false}}
{"conversation": "two"}
{"expect": {"id": "1", "ok": true}}
{"send": {"id": "1", "method": "not.looked.at"}}
"""


def test_only_asserted_requests_are_counted(tmp_path):
    (tmp_path / "test_it.py").write_text(CODE)
    (tmp_path / "it.jsonl").write_text(TALK)
    in_code = [(shown.method, shown.key) for shown in requests_in_tests(tmp_path / "test_it.py")]
    assert in_code == [("shown", "k"), ("shown", "k"), ("of.a.client", "k2")]
    assert [(shown.method, shown.key) for shown in requests_in_scripts(tmp_path / "it.jsonl")] == [("twice", "k")]


async def test_every_method_rejects_unknown_parameters(sockets, make_user, make_token):
    everything = await sockets.connect(make_token(make_user("User", "Operator", "Approver", "Auditor", name="everything")))
    for name in FOR_OPERATORS:
        answer = await everything.request(name, {"unheardOf": 1})
        error = answer.get("error") or {}
        assert (error.get("code"), error.get("message", "")[: len(f"invalid {name} params: ")]) == (
            "INVALID_REQUEST",
            f"invalid {name} params: ",
        ), answer


async def test_every_method_rejects_a_missing_scope(sockets, make_user, make_token):
    spare = "operator.pairing"
    bare = await sockets.connect(make_token(make_user("User", "Operator", name="bare"), spare))
    for name, method in FOR_OPERATORS.items():
        if spare in method.scopes:
            continue
        error = (await bare.request(name, {})).get("error") or {}
        words = f"missing scope: {' or '.join(method.scopes)}"
        assert (error.get("code"), error.get("message")) == ("FORBIDDEN", words), (name, error)
        assert error["details"]["requiredScopes"] == list(method.scopes)
    reader = await sockets.connect(make_token(make_user("User", "Operator", "Approver", name="reader"), "operator.read"))
    for name, method in FOR_OPERATORS.items():
        if "operator.read" not in method.scopes:
            assert (await reader.request(name, {}))["error"]["code"] == "FORBIDDEN", name


def takes(name: str) -> set[str]:
    fields = set(METHODS[name].params.model_fields) if name in FOR_OPERATORS else set()
    return set() if name in NO_OBJECT else fields & (SESSION | RUN | OTHER)


@pytest.mark.parametrize("name", sorted(name for name in METHODS if takes(name)))
async def test_no_method_finds_foreign_objects(name, sockets, worker, make_user, make_token):
    owner = await sockets.connect(make_token(make_user(name="owner")))
    await owner.call("chat.send", {"sessionKey": "agent:main:mine", "message": "secret", "idempotencyKey": "mine"})
    session = await db.read(Session.objects.get, owner__username="owner", key="agent:main:mine")
    run = await db.read(Run.objects.get, run_id="mine")
    # An operator may see that a run exists, but not its content: runs.get.
    groups = ("User", "Approver", "Operator") if "operator.admin" in METHODS[name].scopes else ("User", "Approver")
    stranger = await sockets.connect(make_token(make_user(*groups, name="stranger")))
    needed, fields = NEEDED.get(name, {}), takes(name)
    for there, given in (("session_id", {"sessionId": str(session.generation_id)}), ("run_id", {"runId": "mine"})):
        if there in fields:
            answer = await stranger.request(name, {**needed, **given})
            nothing_done = (name, there) == ("chat.abort", "run_id") and answer["payload"]["aborted"] is False
            assert nothing_done or answer.get("error", {}).get("code") == "NOT_FOUND", answer
    if "id" in fields and name.startswith(("approval.", "exec.approval.")):
        answer = await stranger.request(name, {**needed, "id": str(session.pk)})
        assert answer.get("error", {}).get("code") == "NOT_FOUND", answer
    assert await db.read(lambda: Run.objects.filter(session=session).count()) == 1
    assert "secret" not in str(stranger.seen)
    assert (await db.read(Run.objects.get, pk=run.pk)).abort_requested_at is None
