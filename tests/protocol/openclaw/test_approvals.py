"""Approval requests, their events and grants, checked against the JSON Schema that OpenClaw publishes."""

from typing import Any

import pytest

from clawsite.infra import clock, db
from tests.harness.approvals import create_approval
from tests.protocol.openclaw.test_schema import faults
from tools_app.approvals import external, grants
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

KEY = "agent:main:main"
# Each way in which a request can end.
ENDS = {
    "allowed once": ("allow-once", {}),
    "allowed for a while": ("allow-for", {"for": {"seconds": 600}}),
    "allowed always": ("allow-always", {}),
    "denied": ("deny", {}),
    "expired": ("", {}),
    "void": ("", {}),
}


@pytest.fixture
def people(make_user):
    return {"ada": make_user("User", name="ada"), "ben": make_user("Approver", "Operator", name="ben")}


async def end(how: str, question: Approval, approver: Any) -> Any:
    """Return the response of approval.resolve, for an approver."""
    decision, more = ENDS[how]
    if decision:
        return await approver.call("approval.resolve", {"id": str(question.pk), "kind": "exec", "decision": decision, **more})
    if how == "void":
        await db.write(approval_requests.void_for_run, question.run_id, "stopped", alone=True)
    else:
        await db.write(approval_requests.close_approval, question, Approval.Status.EXPIRED, "", by=None, alone=True)
    return None


@pytest.mark.parametrize("how", ENDS)
async def test_approval_lifecycle_matches_openclaw_schema(how, people, sockets, make_session, make_token):
    session = await db.write(make_session, people["ada"], KEY)
    ada, ben = [await sockets.connect(make_token(people[name])) for name in ("ada", "ben")]
    await ada.call("sessions.messages.subscribe", {"key": KEY, "includeApprovals": True})
    question = await db.write(create_approval, people["ada"], session, "ls", alone=True)
    back = await ada.call("sessions.messages.subscribe", {"key": KEY, "includeApprovals": True})
    found = list(faults("SessionApprovalReplay", back["approvalReplay"]))
    assert len(back["approvalReplay"]["approvals"]) == 1
    await db.write(approval_requests.extend_approval, question.pk, by=people["ben"], alone=True)
    found += faults("PendingSessionApprovalEvent", await ada.event("session.approval", phase="pending"))
    found += faults("ApprovalGetResult", await ben.call("approval.get", {"id": str(question.pk)}))
    answer = await end(how, question, ben)
    if answer:
        found += faults("ApprovalResolveResult", answer)
    found += faults("TerminalSessionApprovalEvent", await ada.event("session.approval", phase="terminal"))
    found += faults("ApprovalGetResult", await ben.call("approval.get", {"id": str(question.pk)}))
    history = await ben.call("approval.history")
    assert len(history["items"]) == 1
    found += faults("ApprovalHistoryResult", history)
    assert found == []


async def test_external_approval_request_matches_openclaw_schema(people, sockets, make_token):
    question = await db.write(
        external.request_external_approval, by=people["ada"], name="x", command="make", cwd="", agent="", seconds=600, alone=True
    )
    ben = await sockets.connect(make_token(people["ben"]))
    found = list(faults("ApprovalGetResult", await ben.call("approval.get", {"id": str(question.pk)})))
    await end("denied", question, ben)
    found += faults("ApprovalHistoryResult", await ben.call("approval.history"))
    assert found == []


async def test_approval_history_and_grants_match_openclaw_schema(people, sockets, make_session, make_token):
    ben = await sockets.connect(make_token(people["ben"]))
    for line, how in (("ls", "allowed always"), ("make " + "x" * 600, "allowed for a while"), ("git status", "denied")):
        session = await db.write(make_session, people["ada"])
        await end(how, await db.write(create_approval, people["ada"], session, line, alone=True), ben)
    hand: dict[str, Any] = {"by": people["ben"], "expires_at": clock.now().replace(year=2100)}
    await db.write(grants.add_manually, ["/usr/bin/" + "y" * 600], scope="directory", subject="/srv", **hand, alone=True)
    await db.write(grants.add_manually, ["ls"], scope="installation", by=people["ben"], alone=True)
    page = await ben.call("approval.history", {"limit": 2})
    found = list(faults("ApprovalHistoryResult", page))
    assert page["nextCursor"]
    listed = await ben.call("exec.approval.grants.list")
    assert len(listed["grants"]) == 4
    found += faults("ExecApprovalGrantsListResult", listed)
    for name in (listed["grants"][0]["grantId"], listed["grants"][0]["grantId"], "0"):
        found += faults("ExecApprovalGrantsRevokeResult", await ben.call("exec.approval.grants.revoke", {"grantId": name}))
    assert found == []
