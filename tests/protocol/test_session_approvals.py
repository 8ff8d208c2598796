"""`session.approval`: clients that follow a session with its approval requests get each creation and end, and no one else does."""

from typing import Any

import pytest

from clawsite.infra import db
from sessions_app.sessions import members
from tests.harness.approvals import park_for_approval
from tools_app.approvals import expiry
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

pytestmark = pytest.mark.dialect

KEY = "agent:main:main"
ASKED = {"key": KEY, "includeApprovals": True}


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "ben": make_user("Approver", "User", name="ben"),
        "eve": make_user("User", name="eve"),
    }


@pytest.fixture
def socket_of(sockets, people, make_token):
    async def connect(name: str, **connect: Any):
        return await sockets.connect(make_token(people[name]), **connect)

    return connect


@pytest.fixture
def ask(people, make_session, tmp_path):
    """A run of ada that requests approval and waits: `await ask()`."""

    async def made() -> Approval:
        return await db.write(park_for_approval, people["ada"], make_session(people["ada"], KEY), tmp_path, alone=True)

    return made


async def heard(socket: Any, phase: str) -> dict[str, Any]:
    return await socket.event("session.approval", phase=phase)


async def test_approval_events_are_sent_on_request_and_decision(ask, people, make_session, socket_of):
    ada, ben = await socket_of("ada"), await socket_of("ben")
    await db.write(make_session, people["ada"], KEY)
    assert (await ada.call("sessions.messages.subscribe", ASKED))["approvalReplay"]["approvals"] == []
    question = await ask()
    asked = await heard(ada, "pending")
    assert (asked["sessionKey"], asked["approval"]["id"], asked["approval"]["status"]) == (KEY, str(question.pk), "pending")
    assert asked["approval"]["presentation"]["commandText"] == "touch made"
    assert (await ada.call("sessions.messages.subscribe", ASKED))["approvalReplay"]["approvals"] == [asked["approval"]]
    await ben.call("exec.approval.resolve", {"id": str(question.pk), "decision": "deny"})
    closed = (await heard(ada, "terminal"))["approval"]
    assert (closed["status"], closed["decision"], closed["resolver"]) == ("denied", "deny", {"kind": "device", "id": "ben"})
    assert ben.events("session.approval") == [], "an approver who does not follow it"


async def test_subscription_before_session_exists_gets_approvals(ask, socket_of):
    ada = await socket_of("ada", caps=["session-scoped-events"])
    await ada.call("sessions.messages.subscribe", ASKED)
    question = await ask()
    assert (await heard(ada, "pending"))["approval"]["id"] == str(question.pk)


async def test_members_see_shared_key_and_others_get_nothing(ask, people, make_session, socket_of):
    ada, ben, eve, other = [await socket_of(name) for name in ("ada", "ben", "eve", "ada")]
    session = await db.write(make_session, people["ada"], KEY)
    await db.write(members.share, people["ada"], session, "ben", "viewer", alone=True)
    shared = f"session:{session.pk}"
    await ben.call("sessions.messages.subscribe", {**ASKED, "key": shared})
    await eve.call("sessions.messages.subscribe", ASKED)
    await eve.request("sessions.messages.subscribe", {**ASKED, "key": shared})
    await other.call("sessions.messages.subscribe", {"key": KEY})
    await ada.call("sessions.messages.subscribe", ASKED)
    question = await ask()
    assert (await heard(ben, "pending"))["sessionKey"] == shared
    await ben.call("exec.approval.resolve", {"id": str(question.pk), "decision": "allow-once"})
    assert (await heard(ben, "terminal"))["approval"]["source"]["sessionKey"] == shared
    await heard(ada, "terminal")
    assert eve.events("session.approval") == []
    assert other.events("session.approval") == [], "it did not ask for questions"


async def test_unsubscribed_client_gets_no_approval_events(ask, people, make_session, socket_of):
    await db.write(make_session, people["ada"], KEY)
    ada, other = await socket_of("ada"), await socket_of("ada")
    for socket in (ada, other):
        await socket.call("sessions.messages.subscribe", ASKED)
    await ada.call("sessions.messages.unsubscribe", {"key": KEY})
    await ask()
    await heard(other, "pending")
    await ada.call("health")
    assert ada.events("session.approval") == []


@pytest.mark.parametrize(
    ("ends", "status", "reason"),
    [("nobody answers", "expired", "timeout"), ("the run is stopped", "cancelled", "run-aborted")],
)
async def test_expired_or_cancelled_approval_request_is_reported_as_closed(
    ask, people, make_session, socket_of, ends, status, reason
):
    await db.write(make_session, people["ada"], KEY)
    ada = await socket_of("ada")
    await ada.call("sessions.messages.subscribe", ASKED)
    question = await ask()
    await heard(ada, "pending")
    if ends == "nobody answers":
        await db.write(_is_late, question)
    else:
        await db.write(approval_requests.void_for_run, question.run_id, "stopped", alone=True)
    told = (await heard(ada, "terminal"))["approval"]
    assert (told["status"], told["reason"], told["resolver"]) == (status, reason, {"kind": "system"})


def _is_late(question: Approval) -> None:
    Approval.objects.filter(pk=question.pk).update(expires_at=question.created_at)
    expiry.expire_and_warn()


async def test_extended_approval_request_is_reported(ask, people, make_session, socket_of):
    await db.write(make_session, people["ada"], KEY)
    ada, ben = await socket_of("ada"), await socket_of("ben")
    await ada.call("sessions.messages.subscribe", ASKED)
    question = await ask()
    asked = await heard(ada, "pending")
    await ben.call("exec.approval.extend", {"id": str(question.pk)})
    longer = (await ada.find(lambda f: f.get("event") == "session.approval" and f["payload"] != asked))["payload"]
    assert (longer["phase"], longer["approval"]["id"]) == ("pending", str(question.pk))
    assert longer["approval"]["expiresAtMs"] > asked["approval"]["expiresAtMs"]
