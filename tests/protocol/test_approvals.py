"""Approval requests over the socket: who sees them, who can decide, and who is notified."""

import asyncio
from typing import Any

import pytest

from clawsite.infra import db
from tests.harness.approvals import park_for_approval
from tools_app.models import Approval, ExecRule, Grant

pytestmark = pytest.mark.dialect


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "ben": make_user("Approver", "User", name="ben"),
        "cleo": make_user("Approver", name="cleo"),
        "eve": make_user("User", name="eve"),
        "olga": make_user("Operator", name="olga"),
    }


@pytest.fixture
async def question(people, make_session, tmp_path):
    return await db.write(park_for_approval, people["ada"], make_session(people["ada"]), tmp_path, alone=True)


@pytest.fixture
def socket_of(sockets, people, make_token):
    async def connect(name: str, *scopes: str):
        return await sockets.connect(auth={"token": make_token(people[name], *scopes)})

    return connect


async def refused(socket, method: str, params: dict[str, Any]) -> str:
    answer = await socket.request(method, params)
    assert not answer["ok"], answer
    return answer["error"]["code"]


async def test_approver_sees_full_request_and_decision_is_broadcast(question, socket_of):
    ben, other = await socket_of("ben"), await socket_of("ben")
    (record,) = await ben.call("exec.approval.list")
    assert (record["id"], record["request"]["command"], record["planHash"]) == (str(question.pk), "touch made", question.plan_hash)
    assert (record["requester"], record["whyNot"], record["why"]) == ("ada", "", "because")
    assert record["executables"][0]["realpath"] == "/usr/bin/touch"
    answer = {"id": record["id"], "decision": "deny", "reason": "not today", "planHash": record["planHash"]}
    told = await ben.call("exec.approval.resolve", answer)
    assert (told["approval"]["status"], told["approval"]["resolvedBy"]) == ("denied", "ben")
    heard = await other.event("exec.approval.resolved", id=record["id"])
    assert (heard["decision"], heard["resolvedBy"], heard["reason"]) == ("deny", "ben", "not today")
    assert (await ben.call("exec.approval.resolve", answer))["ok"], "the same once more is fine"
    answer["decision"] = "allow-once"
    assert await refused(ben, "exec.approval.resolve", answer) == "CONFLICT"
    assert await ben.call("exec.approval.list") == []


async def test_requester_can_see_and_drop_but_not_approve(question, socket_of):
    ada = await socket_of("ada")
    record = await ada.call("exec.approval.get", {"id": str(question.pk)})
    assert record["whyNot"] != ""
    assert await refused(ada, "exec.approval.resolve", {"id": str(question.pk), "decision": "allow-once"}) == "FORBIDDEN"
    dropped = await ada.call("exec.approval.drop", {"id": str(question.pk)})
    assert (dropped["approval"]["status"], dropped["approval"]["decision"]) == ("denied", "drop")


@pytest.mark.parametrize("name", ["olga", "gateway"])
async def test_other_users_can_neither_see_nor_resolve_requests(question, socket_of, sockets, name):
    socket = await (sockets.connect() if name == "gateway" else socket_of(name))
    assert await refused(socket, "exec.approval.resolve", {"id": str(question.pk), "decision": "allow-once"}) == "FORBIDDEN"
    code = await refused(socket, "exec.approval.get", {"id": str(question.pk)})
    assert code in ("NOT_FOUND", "FORBIDDEN")
    assert (await db.read(Approval.objects.get, pk=question.pk)).is_open


async def test_approver_token_with_reduced_scopes_cannot_approve(question, socket_of):
    ben = await socket_of("ben", "operator.read", "operator.write")
    assert await refused(ben, "exec.approval.resolve", {"id": str(question.pk), "decision": "allow-once"}) == "FORBIDDEN"


@pytest.fixture(params=["an account that may do nothing else", "a token", "a connection"])
async def only_approving(request, sockets, people, make_token):
    """Sockets that only have the scope operator.approvals, in each possible way."""
    match request.param:
        case "a token":
            asked: dict[str, Any] = {"auth": {"token": make_token(people["ben"], "operator.approvals")}}
        case "a connection":
            asked = {"auth": {"token": make_token(people["ben"])}, "scopes": ["operator.approvals"]}
        case _:
            asked = {"auth": {"token": make_token(people["cleo"])}}
    socket = await sockets.connect(**asked)
    assert socket.hello["auth"]["scopes"] == ["operator.approvals"]
    return socket


async def test_approvals_scope_suffices_to_list_and_resolve(question, only_approving):
    (record,) = await only_approving.call("exec.approval.list")
    asked = {"id": str(question.pk)}
    assert await only_approving.call("exec.approval.get", asked) == record
    waiting = asyncio.create_task(only_approving.call("exec.approval.waitDecision", asked))
    await only_approving.call("exec.approval.resolve", {**asked, "decision": "deny", "planHash": record["planHash"]})
    assert (await waiting)["decision"] == "deny"
    assert await refused(only_approving, "chat.history", {"sessionKey": "main"}) == "FORBIDDEN"
    assert await refused(only_approving, "exec.approval.drop", asked) == "FORBIDDEN"


async def test_approvals_only_client_can_request_but_not_self_approve(only_approving, socket_of):
    first = await only_approving.call("exec.approval.request", {"command": "make deploy", "twoPhase": True})
    asked = {"id": first["id"]}
    assert await refused(only_approving, "exec.approval.resolve", {**asked, "decision": "allow-once"}) == "FORBIDDEN"
    question = await db.read(Approval.objects.select_related("requester").get, pk=first["id"])
    other = await socket_of("cleo" if question.requester.username == "ben" else "ben")
    await other.call("exec.approval.resolve", {**asked, "decision": "allow-once"})
    assert (await only_approving.call("exec.approval.waitDecision", asked))["decision"] == "allow-once"


async def test_foreign_requests_are_hidden_from_non_approvers(question, people, socket_of):
    eve = await socket_of("eve")
    assert await eve.call("exec.approval.list") == []
    for name in ("get", "waitDecision"):
        assert await refused(eve, f"exec.approval.{name}", {"id": str(question.pk)}) == "NOT_FOUND"
    former = await socket_of("cleo")
    await db.write(people["cleo"].groups.clear)
    assert await refused(await socket_of("cleo", "operator.approvals"), "exec.approval.list", {}) == "FORBIDDEN"
    assert await refused(former, "exec.approval.list", {}) == "FORBIDDEN"


async def test_wait_decision_returns_when_resolved(question, socket_of):
    ada, ben = await socket_of("ada"), await socket_of("ben")
    waiting = asyncio.create_task(ada.call("exec.approval.waitDecision", {"id": str(question.pk)}))
    longer = await ben.call("exec.approval.extend", {"id": str(question.pk)})
    assert longer["approval"]["expiresAtMs"] > 0
    wish = {"id": str(question.pk), "decision": "allow-for", "for": {"seconds": 900, "scope": "session"}}
    await ben.call("exec.approval.resolve", wish)
    decided = await waiting
    assert (decided["status"], decided["decision"]) == ("approved", "allow-for")
    assert (await db.read(Grant.objects.get)).scope == "session"


async def test_invalid_input_gets_a_clear_error(question, socket_of):
    ben = await socket_of("ben")
    assert await refused(ben, "exec.approval.get", {"id": "nonsense"}) == "NOT_FOUND"
    assert await refused(ben, "exec.approval.resolve", {"id": str(question.pk), "decision": "maybe"}) == "INVALID_REQUEST"
    stale = {"id": str(question.pk), "decision": "allow-once", "planHash": "0" * 64}
    assert await refused(ben, "exec.approval.resolve", stale) == "CONFLICT"


async def test_client_requests_approval_for_its_own_command(socket_of):
    ada, ben = await socket_of("ada"), await socket_of("ben")
    asked = {"id": "mine", "command": "make deploy", "cwd": "/srv", "twoPhase": True}
    first = await ada.call("exec.approval.request", asked)
    assert first["status"] == "accepted"
    heard = await ben.event("exec.approval.requested", id=first["id"])
    assert heard["request"]["command"] == "make deploy"
    again = await ada.call("exec.approval.request", asked)
    assert again["id"] == first["id"], "the same id is the same question"
    assert await refused(ada, "exec.approval.resolve", {"id": first["id"], "decision": "allow-once"}) == "FORBIDDEN"
    await ben.call("exec.approval.resolve", {"id": first["id"], "decision": "allow-once"})
    decided = await ada.call("exec.approval.waitDecision", {"id": first["id"]})
    assert decided["decision"] == "allow-once"
    hidden = {"command": "echo \u202egnp.exe"}
    assert await refused(ada, "exec.approval.request", hidden) == "INVALID_REQUEST"


async def test_rules_are_readable_by_token_but_browser_only_writable(people, socket_of, sockets, make_cookie):
    olga = await socket_of("olga")
    rules = await olga.call("exec.approvals.get")
    assert rules["file"] == {"version": 1, "defaults": {}, "agents": {}}
    wanted: dict[str, Any] = {
        "version": 1,
        "defaults": {"askFallback": "deny"},
        "agents": {
            "main": {"security": "allowlist", "ask": "on-miss", "allowlist": [{"pattern": "/usr/bin/git"}]},
            "*": {"allowlist": ["ls"]},
        },
    }
    wanted["agents"]["*"] = {"allowlist": ["ls"]}
    change = {"file": wanted, "baseHash": rules["hash"]}
    assert await refused(olga, "exec.approvals.set", change) == "FORBIDDEN"
    cookie = await db.read(make_cookie, people["olga"])
    browser = await sockets.connect(auth=None, headers={"Cookie": cookie, "Origin": "http://gateway.test:8765"})
    told = await browser.call("exec.approvals.set", change)
    assert told["file"]["agents"]["main"]["allowlist"] == [{"pattern": "/usr/bin/git"}]
    assert (await db.read(ExecRule.objects.get, subject="main")).security == "allowlist"
    assert await refused(browser, "exec.approvals.set", change) == "CONFLICT"
    wrong = {"file": {**wanted, "agents": {"main": {"security": "everything"}}}, "baseHash": told["hash"]}
    assert await refused(browser, "exec.approvals.set", wrong) == "INVALID_REQUEST"
    emptied = await browser.call("exec.approvals.set", {"file": {"version": 1}, "baseHash": told["hash"]})
    assert "main" not in emptied["file"]["agents"] or not emptied["file"]["agents"]["main"]
    assert not await db.read(lambda: Grant.objects.filter(revoked_at__isnull=True).exists())
