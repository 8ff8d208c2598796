"""Grants over the socket: listing and revoking them, for users who can do the same on the page."""

from typing import Any

import pytest

from clawsite.infra import clock, db
from tests.harness.approvals import create_approval
from tests.harness.users import add_permissions
from tools_app.approvals import grants
from tools_app.models import Approval, Grant

LIST, REVOKE = "exec.approval.grants.list", "exec.approval.grants.revoke"


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "ben": make_user("Approver", name="ben"),
        "olga": make_user("Operator", name="olga"),
        "otto": add_permissions(make_user("User", name="otto"), "accounts.administer_gateway"),
    }


@pytest.fixture
def socket_of(sockets, people, make_token):
    async def connect(name: str, *scopes: str):
        return await sockets.connect(make_token(people[name], *scopes))

    return connect


@pytest.fixture
async def given(people):
    """Three grants: of an agent, of everyone, and a revoked one."""

    def make() -> list[Grant]:
        agent = grants.add_manually(["/usr/bin/git"], by=people["olga"], scope="agent", subject="main", agent="main", uses=5)
        everybody = grants.add_manually(["ls", "/usr/bin/cat"], by=people["olga"], scope="installation")
        gone = grants.add_manually(["rm"], by=people["olga"], scope="installation")
        grants.revoke_grant(gone.pk, by=people["ben"])
        return [agent, everybody, gone]

    return await db.write(make, alone=True)


async def is_living(grant: Grant) -> bool:
    return (await db.read(Grant.objects.get, pk=grant.pk)).revoked_at is None


async def refused(socket: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await socket.request(method, params)
    assert not answer["ok"], answer
    return answer["error"]


@pytest.mark.parametrize("name", ["ben", "olga"])
async def test_grants_are_listed_and_revoked(given, socket_of, name):
    socket = await socket_of(name)
    agent, everybody, _gone = given
    everywhere, of_agent = (await socket.call(LIST))["grants"]
    assert (everywhere["grantId"], everywhere["command"], everywhere["agentId"]) == (str(everybody.pk), "ls, /usr/bin/cat", "*")
    assert (of_agent["cronJobName"], of_agent["agentId"], of_agent["usesLeft"]) == ("agent main", "main", 5)
    assert (of_agent["givenBy"], of_agent["mintedByApprovalId"], of_agent["useCount"]) == ("olga", "by-hand", 0)
    assert [row["grantId"] for row in (await socket.call(LIST, {"limit": 1}))["grants"]] == [str(everybody.pk)]
    assert await socket.call(REVOKE, {"grantId": str(agent.pk)}) == {"outcome": "revoked"}
    assert not await is_living(agent)
    assert await socket.call(REVOKE, {"grantId": str(agent.pk)}) == {"outcome": "already-revoked"}
    assert [row["grantId"] for row in (await socket.call(LIST))["grants"]] == [str(everybody.pk)]
    revoked = await db.read(Grant.objects.select_related("revoked_by").get, pk=agent.pk)
    assert revoked.revoked_by.username == name


async def test_grant_names_its_approval_request(people, make_session, socket_of):
    question = await db.write(create_approval, people["ada"], make_session(people["ada"]), "ls", alone=True)
    ben = await socket_of("ben")
    wish = {"seconds": 600, "scope": "session"}
    await ben.call("exec.approval.resolve", {"id": str(question.pk), "decision": "allow-for", "for": wish})
    (row,) = (await ben.call(LIST))["grants"]
    assert (row["mintedByApprovalId"], row["scope"], row["subject"]) == (str(question.pk), "session", str(question.session_id))
    assert row["expiresAtMs"] > clock.now_ms()
    assert (await db.read(Approval.objects.get, pk=question.pk)).decision == "allow-for"


@pytest.mark.parametrize("name", ["0", "2000000000", "9" * 30, "-1", "nonsense", "١"])
async def test_unknown_grant_is_not_found(given, socket_of, name):
    assert await (await socket_of("ben")).call(REVOKE, {"grantId": name}) == {"outcome": "not-found"}
    assert [await is_living(grant) for grant in given] == [True, True, False]


BAD = [(LIST, {"limit": 0}), (LIST, {"limit": 501}), (REVOKE, {}), (REVOKE, {"grantId": 1})]


@pytest.mark.parametrize(("method", "params"), BAD)
async def test_invalid_input_gets_a_clear_error(socket_of, method, params):
    assert (await refused(await socket_of("ben"), method, params))["code"] == "INVALID_REQUEST"


@pytest.mark.parametrize("who", ["ada", "gateway", "a narrowed token"])
async def test_unauthorized_user_is_rejected_for_existing_and_missing_grants(given, sockets, socket_of, who):
    match who:
        case "ada":
            socket = await socket_of("ada")
        case "gateway":
            socket = await sockets.connect()
        case _:
            socket = await socket_of("olga", "operator.pairing")
    for method, params in ((LIST, {}), (REVOKE, {"grantId": str(given[0].pk)}), (REVOKE, {"grantId": "2000000000"})):
        error = await refused(socket, method, params)
        assert error["details"]["requiredScopes"] == ["operator.approvals", "operator.admin"]
    assert await is_living(given[0])


async def test_scope_without_permission_is_rejected(given, socket_of):
    otto = await socket_of("otto")
    for method, params in ((LIST, {}), (REVOKE, {"grantId": str(given[0].pk)})):
        assert (await refused(otto, method, params))["code"] == "FORBIDDEN"
    assert await is_living(given[0])
