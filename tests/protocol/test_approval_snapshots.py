"""approval.get, .resolve and .history: approval requests in the form of OpenClaw's newer clients, using the same service."""

import datetime as dt
from typing import Any

import pytest

from clawsite.infra import db
from tests.harness.approvals import create_approval
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

pytestmark = pytest.mark.dialect

UNKNOWN = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "ben": make_user("Approver", name="ben"),
        "cleo": make_user("Approver", name="cleo"),
        "olga": make_user("Operator", "User", name="olga"),
    }


@pytest.fixture
def socket_of(sockets, people, make_token):
    async def connect(name: str, *scopes: str):
        return await sockets.connect(make_token(people[name], *scopes))

    return connect


@pytest.fixture
def ask(people, make_session):
    """Open approval requests, each in a separate session: `await ask("ls")`."""

    async def made(line: str = "ls", **more: Any) -> Approval:
        return await db.write(create_approval, people["ada"], make_session(people["ada"]), line, **more, alone=True)

    return made


async def refused(socket, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await socket.request(method, params)
    assert not answer["ok"], answer
    return answer["error"]


def deny(question: Approval, **more: Any) -> dict[str, Any]:
    return {"id": str(question.pk), "kind": "exec", "decision": "deny", **more}


async def test_approval_request_is_read_and_resolved(ask, socket_of):
    question, ben = await ask("make clean"), await socket_of("ben")
    pending = (await ben.call("approval.get", {"id": str(question.pk)}))["approval"]
    assert (pending["status"], pending["presentation"]["commandText"]) == ("pending", "make clean")
    assert pending["presentation"]["allowedDecisions"] == ["allow-once", "allow-always", "deny"]
    told = await ben.call("approval.resolve", deny(question, reason="not today", planHash=question.plan_hash))
    assert told["applied"] is True
    closed = told["approval"]
    assert (closed["status"], closed["decision"], closed["reason"]) == ("denied", "deny", "user")
    assert closed["resolver"] == {"kind": "device", "id": "ben"}
    assert closed["source"] == {"agentId": "main", "sessionKey": f"session:{question.session_id}"}
    assert await ben.call("approval.get", {"id": str(question.pk)}) == {"approval": closed}
    assert (await db.read(Approval.objects.get, pk=question.pk)).reason == "not today"


async def test_first_decision_wins_and_repeating_it_succeeds(ask, socket_of):
    question, ben, cleo = await ask(), await socket_of("ben"), await socket_of("cleo")
    first = await ben.call("approval.resolve", deny(question))
    again = await ben.call("approval.resolve", deny(question))
    assert (again["applied"], again["approval"]) == (False, first["approval"])
    for late in (deny(question), deny(question, decision="allow-once")):
        error = await refused(cleo, "approval.resolve", late)
        assert (error["code"], error["details"]["decidedBy"], error["details"]["decision"]) == ("CONFLICT", "ben", "deny")


async def test_two_person_approval_applies_with_the_second(ask, socket_of):
    question = await ask(needed=2)
    wish = deny(question, decision="allow-once")
    one = await (await socket_of("ben")).call("approval.resolve", wish)
    assert (one["applied"], one["approval"]["status"]) == (False, "pending")
    two = await (await socket_of("cleo")).call("approval.resolve", wish)
    assert (two["applied"], two["approval"]["status"], two["approval"]["decision"]) == (True, "allowed", "allow-once")


@pytest.mark.parametrize(
    ("decision", "more", "told"),
    [
        ("allow-once", {}, "allow-once"),
        ("allow-always", {}, "allow-always"),
        ("allow-for", {"for": {"seconds": 600}}, "allow-once"),
    ],
)
async def test_allow_decisions_map_to_openclaw_values(ask, socket_of, decision, more, told):
    answer = await (await socket_of("ben")).call("approval.resolve", deny(await ask(), decision=decision, **more))
    assert (answer["approval"]["status"], answer["approval"]["decision"]) == ("allowed", told)


async def test_history_pages_resolved_requests_newest_first(ask, people, socket_of):
    ben = await socket_of("ben")
    assert await ben.call("approval.history") == {"items": []}
    closed = [await ask(f"ls {number}") for number in range(4)]
    await ask("still open")
    for question in closed[:3]:
        await db.write(approval_requests.resolve_approval, question.pk, by=people["ben"], decision="deny", alone=True)
    await db.write(approval_requests.void_for_run, closed[3].run_id, "stopped", alone=True)
    # Two with the same timestamp, so that a page ends between them.
    at = (await db.read(Approval.objects.get, pk=closed[2].pk)).decided_at + dt.timedelta(seconds=1)
    await db.write(lambda: Approval.objects.filter(pk__in=[closed[1].pk, closed[2].pk]).update(decided_at=at))
    seen, cursor = [], {}
    while cursor is not None:
        page = await ben.call("approval.history", {"limit": 1, "kind": "exec", **cursor})
        seen += page["items"]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    whole = await ben.call("approval.history", {"limit": 100})
    assert whole == {"items": seen}
    moments = [each["resolvedAtMs"] for each in seen]
    assert (len({each["id"] for each in seen}), moments) == (4, sorted(moments, reverse=True))
    assert {each["id"]: each["status"] for each in seen}[str(closed[3].pk)] == "cancelled"


async def test_other_approval_kinds_are_empty(ask, socket_of):
    question, ben = await ask(), await socket_of("ben")
    await ben.call("approval.resolve", deny(question))
    for kind in ("plugin", "system-agent"):
        assert await ben.call("approval.history", {"kind": kind}) == {"items": []}
        error = await refused(ben, "approval.resolve", deny(await ask(), kind=kind))
        assert (error["code"], error["details"]) == ("NOT_FOUND", {"reason": "APPROVAL_NOT_FOUND"})


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("approval.get", {}, "INVALID_REQUEST"),
        ("approval.get", {"id": "nonsense"}, "NOT_FOUND"),
        ("approval.get", {"id": UNKNOWN}, "NOT_FOUND"),
        ("approval.resolve", {"id": UNKNOWN, "kind": "exec", "decision": "deny"}, "NOT_FOUND"),
        ("approval.resolve", {"id": UNKNOWN, "decision": "deny"}, "INVALID_REQUEST"),
        ("approval.resolve", {"id": UNKNOWN, "kind": "exec", "decision": "maybe"}, "INVALID_REQUEST"),
        ("approval.resolve", {"id": UNKNOWN, "kind": "exec", "decision": "deny", "reviewer": {"channel": "x"}}, "INVALID_REQUEST"),
        ("approval.resolve", {"id": UNKNOWN, "kind": "exec", "decision": "deny", "grantExpiresInDays": 9}, "INVALID_REQUEST"),
        ("approval.history", {"limit": 101}, "INVALID_REQUEST"),
        ("approval.history", {"cursor": "nonsense"}, "INVALID_REQUEST"),
        ("approval.history", {"cursor": UNKNOWN}, "INVALID_REQUEST"),
        ("approval.history", {"kind": "other"}, "INVALID_REQUEST"),
    ],
)
async def test_invalid_input_gets_a_clear_error(socket_of, method, params, code):
    assert (await refused(await socket_of("ben"), method, params))["code"] == code


async def test_decision_with_wrong_plan_hash_leaves_request_open(ask, socket_of):
    question = await ask()
    error = await refused(await socket_of("ben"), "approval.resolve", deny(question, planHash="0" * 64))
    assert error["code"] == "CONFLICT"
    assert (await db.read(Approval.objects.get, pk=question.pk)).is_open


@pytest.mark.parametrize("who", ["ada", "olga", "gateway"])
async def test_user_without_approve_permission_is_always_rejected(ask, sockets, socket_of, who):
    question = await ask()
    socket = await (sockets.connect() if who == "gateway" else socket_of(who))
    for name, params in (
        ("approval.get", {"id": str(question.pk)}),
        ("approval.get", {"id": UNKNOWN}),
        ("approval.resolve", deny(question)),
        ("approval.history", {}),
    ):
        error = await refused(socket, name, params)
        assert (error["code"], error["details"]["missingScope"]) == ("FORBIDDEN", "operator.approvals")
    assert (await db.read(Approval.objects.get, pk=question.pk)).is_open


async def test_approver_groups_of_the_request_are_enforced(ask, socket_of):
    question = await ask(approver_groups=[["Operator"]])
    assert (await refused(await socket_of("ben"), "approval.resolve", deny(question)))["code"] == "FORBIDDEN"
