"""Cases that every method has, made from the registry: whoever adds one without them is told here.

Success and repeats are found in the conversations beside this file, or in a test file that is named below.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from clawsite.gateway import registry
from clawsite.infra import db
from sessions_app.models import Run, Session
from tests.protocol.conversation import conversations

HERE = Path(__file__).parent
TESTS = HERE.parent
# Methods whose success needs more than a conversation can set up, and where it is shown.
SHOWN_IN = {
    **dict.fromkeys(
        ("device.pair.approve", "device.pair.list", "device.pair.reject", "device.pair.remove", "device.pair.rename"),
        "protocol/test_devices.py",
    ),
    **dict.fromkeys(("device.token.revoke", "device.token.rotate", "node.allow", "node.rename"), "protocol/test_devices.py"),
    **dict.fromkeys(("node.pair.approve", "node.pair.list", "node.pair.reject", "node.pair.remove"), "protocol/test_devices.py"),
    "node.broadcast": "protocol/test_nodes.py",
    **dict.fromkeys(("node.describe", "node.event", "node.invoke", "node.invoke.result", "node.list"), "protocol/test_nodes.py"),
    **dict.fromkeys(("approval.get", "approval.resolve", "approval.history"), "protocol/test_approval_snapshots.py"),
    **dict.fromkeys(("exec.approval.grants.list", "exec.approval.grants.revoke"), "protocol/test_approval_grants.py"),
    "exec.approval.drop": "protocol/test_approvals.py",
    "exec.approval.extend": "protocol/test_approvals.py",
    "exec.approval.get": "protocol/test_approvals.py",
    "exec.approval.list": "protocol/test_approvals.py",
    "exec.approval.request": "protocol/test_approvals.py",
    "exec.approval.resolve": "protocol/test_approvals.py",
    "exec.approval.waitDecision": "protocol/test_approvals.py",
    "exec.approvals.get": "protocol/test_approvals.py",
    "exec.approvals.set": "protocol/test_approvals.py",
    "logs.tail": "protocol/test_logs.py",
    "tools.catalog": "journeys/test_tools_invoke.py",
    "tools.effective": "journeys/test_tools_invoke.py",
    "tools.invoke": "journeys/test_tools_invoke.py",
}
# What a request needs besides the object, so that it fails for the object's sake.
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
# These take an id that is nobody's property, or only as the asker's own words.
NO_OBJECT = {"exec.approval.request"}
SESSION, RUN, OTHER = {"session_id"}, {"run_id"}, {"id"}


def said() -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """method -> the requests of all conversations with what is expected of each."""
    found = defaultdict(list)
    for file in HERE.glob("*.jsonl"):
        for _, lines in conversations(file):
            open_requests: dict[tuple[str, str], dict[str, Any]] = {}
            for line in lines:
                on = line.get("on", "a")
                if "send" in line and isinstance(line["send"], dict) and "method" in line["send"]:
                    open_requests[on, line["send"].get("id", "")] = line["send"]
                elif "id" in line.get("expect", {}) and (request := open_requests.get((on, line["expect"]["id"]))):
                    found[request["method"]].append((request, line["expect"]))
    return found


SAID = said()
METHODS = registry.methods()
FOR_OPERATORS = {name: method for name, method in METHODS.items() if method.scopes}  # the others are a node's


def shown_elsewhere(name: str) -> bool:
    return name in SHOWN_IN and f'"{name}"' in (TESTS / SHOWN_IN[name]).read_text()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_seen_to_succeed(name):
    succeeded = any(answer.get("ok") is True for _, answer in SAID[name])
    assert succeeded or shown_elsewhere(name), f"write a conversation in which {name} succeeds"


@pytest.mark.parametrize("name", sorted(name for name, each in METHODS.items() if "idempotency_key" in each.params.model_fields))
def test_every_method_with_an_idempotency_key_is_seen_repeated(name):
    keys = [
        (request.get("params") or {}).get("idempotencyKey") or request.get("idempotencyKey")
        for request, answer in SAID[name]
        if answer.get("ok")
    ]
    repeated = {key for key in keys if key and keys.count(key) > 1}
    assert repeated or shown_elsewhere(name), f"write a conversation in which {name} is sent twice with the same key"


async def test_every_method_refuses_a_parameter_it_does_not_know(sockets, person, token_of):
    everything = await sockets.connect(token_of(person("User", "Operator", "Approver", "Auditor", name="everything")))
    for name in FOR_OPERATORS:
        answer = await everything.request(name, {"unheardOf": 1})
        error = answer.get("error") or {}
        assert (error.get("code"), error.get("message", "")[: len(f"invalid {name} params: ")]) == (
            "INVALID_REQUEST",
            f"invalid {name} params: ",
        ), answer


async def test_every_method_refuses_a_connection_without_its_scope(sockets, person, token_of):
    spare = "operator.pairing"
    bare = await sockets.connect(token_of(person("User", "Operator", name="bare"), spare))
    for name, method in FOR_OPERATORS.items():
        if spare in method.scopes:
            continue
        error = (await bare.request(name, {})).get("error") or {}
        words = f"missing scope: {' or '.join(method.scopes)}"
        assert (error.get("code"), error.get("message")) == ("FORBIDDEN", words), (name, error)
        assert error["details"]["requiredScopes"] == list(method.scopes)
    reader = await sockets.connect(token_of(person("User", "Operator", "Approver", name="reader"), "operator.read"))
    for name, method in FOR_OPERATORS.items():
        if "operator.read" not in method.scopes:
            assert (await reader.request(name, {}))["error"]["code"] == "FORBIDDEN", name


def takes(name: str) -> set[str]:
    fields = set(METHODS[name].params.model_fields) if name in FOR_OPERATORS else set()
    return set() if name in NO_OBJECT else fields & (SESSION | RUN | OTHER)


@pytest.mark.parametrize("name", sorted(name for name in METHODS if takes(name)))
async def test_no_method_finds_what_belongs_to_somebody_else(name, sockets, hand, person, token_of):
    owner = await sockets.connect(token_of(person(name="owner")))
    await owner.call("chat.send", {"sessionKey": "agent:main:mine", "message": "secret", "idempotencyKey": "mine"})
    session = await db.read(Session.objects.get, owner__username="owner", key="agent:main:mine")
    run = await db.read(Run.objects.get, run_id="mine")
    # An operator may know that a run was there, though not what was said: runs.get.
    groups = ("User", "Approver", "Operator") if "operator.admin" in METHODS[name].scopes else ("User", "Approver")
    stranger = await sockets.connect(token_of(person(*groups, name="stranger")))
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
