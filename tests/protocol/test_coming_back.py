"""A client that was offline while everything was restarted gets what it missed, once and in order, and what is still pending."""

from typing import Any

import pytest

from clawsite.infra import db
from sessions_app.events.journal import NewEvent
from sessions_app.models import Session
from sessions_app.runs import queue
from tests.harness.approvals import allow_approval_requests, claim_run, request_approval
from tests.harness.gateway import serve_gateway
from tests.harness.protocol import SocketClients
from tests.harness.waits import park
from tools_app.models import Approval

pytestmark = pytest.mark.dialect

KEY = "agent:main:away"
SCOPED = {"caps": ["session-scoped-events", "tool-events"]}


@pytest.fixture
def people(make_user, make_token):
    accounts = {"ada": make_user("User", name="ada"), "ben": make_user("Approver", "User", name="ben")}
    return {name: (user, make_token(user)) for name, user in accounts.items()}


def _goes_on(claimed: Any, workspace: Any) -> Approval:
    """What a worker does while no web process is running: some text, then an approval request for which the run waits."""
    for number in range(1, 4):
        data = {"messageId": "m", "attempt": 1, "delta": f"{number} ", "offset": 2 * number - 2}
        queue.append_events([(claimed, [NewEvent("assistant", data)])])
    question = request_approval(claimed, workspace)
    park(claimed)
    return question


async def test_client_reconnecting_after_restart_gets_missed_events_and_approval(database, people, make_session, tmp_path):
    (ada, token), (_, approver) = people["ada"], people["ben"]
    session = await db.write(make_session, ada, KEY)
    await db.write(allow_approval_requests)
    claimed = await db.write(claim_run, ada, session, "k1", alone=True)
    async with serve_gateway() as address:
        here = SocketClients(address)
        client = await here.connect(token, **SCOPED)
        place = await client.call("sessions.messages.subscribe", {"key": KEY, "fromStateVersion": 0})
        first = await client.event("agent", runId="k1", stream="lifecycle")
        seen = {"fromStateVersion": first["cursor"], "epoch": place["epoch"]}
        await here.close()
    question = await db.write(_goes_on, claimed, tmp_path, alone=True)  # no client is connected
    async with serve_gateway() as address:
        here = SocketClients(address)
        client = await here.connect(token, **SCOPED)
        back = await client.call("sessions.messages.subscribe", {"key": KEY, **seen, "includeApprovals": True})
        assert [each["id"] for each in back["approvals"]] == [str(question.pk)]
        (shown,) = back["approvalReplay"]["approvals"]
        assert (shown["status"], shown["presentation"]["commandText"]) == ("pending", "touch made")
        await client.event("agent", cursor=await db.read(_last_cursor, session))
        missed = client.events("agent")
        assert [event["cursor"] for event in missed] == list(range(first["cursor"] + 1, first["cursor"] + len(missed) + 1))
        assert [event["data"]["delta"] for event in missed if event["stream"] == "assistant"] == ["1 ", "2 ", "3 "]
        asked = await client.call("sessions.history", {"sessionKey": KEY, **seen})
        assert [event["payload"]["cursor"] for event in asked["events"]] == [event["cursor"] for event in missed]
        assert [each["id"] for each in asked["approvals"]] == [str(question.pk)]
        # The decision is sent live, and the state no longer has the request.
        other = await here.connect(approver)
        await other.call("exec.approval.resolve", {"id": str(question.pk), "decision": "deny", "reason": "no"})
        await client.find(lambda f: f.get("event") == "agent" and f["payload"]["data"].get("phase") == "decided")
        assert (await client.call("chat.history", {"sessionKey": KEY}))["approvals"] == []
        await here.close()


def _last_cursor(session: Session) -> int:
    return Session.objects.get(pk=session.pk).cursor


async def test_foreign_pending_approvals_are_not_in_the_snapshot(database, people, make_session, tmp_path, make_user, make_token):
    ada, _ = people["ada"]
    session = await db.write(make_session, ada, KEY)
    await db.write(allow_approval_requests)
    claimed = await db.write(claim_run, ada, session, "k1", alone=True)
    await db.write(_goes_on, claimed, tmp_path, alone=True)
    async with serve_gateway() as address:
        here = SocketClients(address)
        stranger = await here.connect(make_token(make_user(name="stranger")))
        answer = await stranger.call("sessions.messages.subscribe", {"key": KEY, "includeApprovals": True})
        assert answer.get("approvals", []) == []
        assert (await stranger.request("sessions.history", {"sessionId": str(session.pk)}))["error"]["code"] == "NOT_FOUND"
        await here.close()


async def test_cursor_of_a_restored_database_requires_resync(database, people, make_session, worker):
    ada, token = people["ada"]
    session = await db.write(make_session, ada, KEY)
    async with serve_gateway() as address:
        here = SocketClients(address)
        client = await here.connect(token)
        place = await client.call("sessions.messages.subscribe", {"key": KEY})
        await here.close()
    await worker.restore_database()
    async with serve_gateway() as address:
        here = SocketClients(address)
        client = await here.connect(token)
        seen = {"fromStateVersion": place["cursor"], "epoch": place["epoch"]}
        back = await client.call("sessions.messages.subscribe", {"key": KEY, **seen})
        assert back["resync_required"] is True
        assert back["epoch"] != place["epoch"]
        assert (await client.call("sessions.history", {"sessionId": str(session.pk), **seen}))["resync_required"] is True
        await here.close()


async def test_stale_presence_list_is_detectable_by_version(sockets):
    """A client that remembers the highest version never goes back to an older list."""
    watcher = await sockets.connect()
    version = watcher.hello["snapshot"]["stateVersion"]["presence"]
    versions = [version]
    for number in range(3):
        page = await sockets.connect(client={"id": "page", "mode": "webchat", "instanceId": f"i{number}", "version": "1"})
        assert page.hello["snapshot"]["stateVersion"]["presence"] >= versions[-1]
        frame = await watcher.find(
            lambda f, number=number: (
                f.get("event") == "presence" and any(entry.get("instanceId") == f"i{number}" for entry in f["payload"]["presence"])
            )
        )
        versions.append(frame["stateVersion"]["presence"])
    assert versions == sorted(set(versions))
