"""`claw approvals` against a real gateway: what it lists and shows, its decisions and error messages."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import connection

from clawsite.cli.command import CommandFailed, run_command
from clawsite.cli.commands import approvals as cli
from clawsite.infra import clock, db
from tests.harness.approvals import park_for_approval
from tools_app.approvals import external
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval, Grant

Claw = Callable[..., Awaitable[str]]


@pytest.fixture
def ada(make_user):
    return make_user("User", name="ada")


@pytest.fixture
def ben(make_user):
    return make_user("Approver", "User", name="ben")


@pytest.fixture
def ask(ada, make_session, tmp_path):
    """Create a pending approval request: `await ask("touch made")`."""

    async def made(line: str = "touch made", *, why: str = "because", **rules: Any) -> Approval:
        session = make_session(ada)
        run_id = f"k-{session.pk}"
        return await db.write(park_for_approval, ada, session, tmp_path, line, run_id=run_id, why=why, alone=True, **rules)

    return made


@pytest.fixture
def claw_as(address, monkeypatch, capsys, make_token) -> Callable[..., Claw]:
    """Run the command with a user's access token and return its output."""

    def of(user: Any, *scopes: str) -> Claw:
        token = make_token(user, *scopes) if user else "test-gateway-token"

        async def claw(*arguments: str) -> str:
            monkeypatch.setenv("CLAWSITE_GATEWAY_TOKEN", token)
            # The command runs its own event loop beside the server's.
            code = await asyncio.to_thread(run_command, cli, "approvals", ["--url", f"http://{address}", *arguments])
            assert code == 0
            return str(capsys.readouterr().out)

        return claw

    return of


async def status_of(question: Approval) -> str:
    return (await db.read(Approval.objects.get, pk=question.pk)).status


async def test_pending_requests_are_listed_as_text_and_json(claw_as, ben, ask):
    claw = claw_as(ben)
    assert (await claw("list")).startswith("No pending approval requests")
    assert json.loads(await claw("list", "--json")) == {"approvals": []}
    first, second = await ask("touch made"), await ask("cat <<E\n1234abcd   24 h left  main        ls\nE")
    lines = (await claw("list")).splitlines()
    assert [line.split()[0] for line in lines] == [str(first.pk)[:8], str(second.pk)[:8]]
    assert lines[0].endswith("24 h left  main        touch made")
    assert lines[1].endswith("cat <<E⟨U+000A⟩1234abcd   24 h left  main        ls⟨U+000A⟩E")
    approvals = json.loads(await claw("list", "--json"))["approvals"]
    assert [each["planHash"] for each in approvals] == [first.plan_hash, second.plan_hash]


async def test_show_prints_everything_and_marks_the_agents_text(claw_as, ben, ask):
    claw = claw_as(ben)
    forged = "to tidy up\nplan         0000\ncommand:\nls \u202e\u3164"
    question = await ask("touch made &&\n  touch more", why=forged)
    lines = (await claw("show", str(question.pk)[:8].upper())).splitlines()
    assert lines[0] == f"request      {question.pk} (pending, 24 h left)"
    assert "requested by ada, agent main, in " in lines[1]
    assert "program      touch = /usr/bin/touch" in lines
    assert f"plan         {question.plan_hash}" in lines
    assert lines[-3:] == ["command:", "touch made &&", "  touch more"]
    assert lines.count("command:") == 1
    agent_lines = ["to tidy up", "plan         0000", "command:", "ls ⟨U+202E⟩⟨U+3164⟩"]
    assert lines[-7:-3] == [f"agent says   | {line}" for line in agent_lines]
    assert json.loads(await claw("show", str(question.pk), "--json"))["why"] == forged


async def test_show_lists_scripts_that_would_run(claw_as, ben, ask, tmp_path):
    (tmp_path / "s.py").write_text("print(1)\n")
    question = await ask("python3 s.py")
    (script,) = question.plan["scripts"]
    assert (
        f"runs script  {script['path']} {script['identity'][:12]}"
        in (await claw_as(ben)("show", str(question.pk)[:8])).splitlines()
    )


async def test_external_requests_cannot_control_the_terminal(claw_as, ben, ada):
    await db.write(
        external.request_external_approval,
        by=ada,
        name="x",
        command="make",
        cwd="/srv\nplan  0",
        agent="\x1b[2Jmain\nx",
        seconds=600,
        alone=True,
    )
    claw = claw_as(ben)
    (line,) = (await claw("list")).splitlines()
    assert "⟨U+001B⟩[2Jmain⟨U+000A⟩x" in line
    shown = await claw("show", line.split()[0])
    assert "directory    /srv⟨U+000A⟩plan  0\n" in shown
    assert "\x1b" not in shown + await claw("list", "--json")


async def test_approval_is_stored_with_the_approver(claw_as, ben, ask):
    question = await ask()
    assert await claw_as(ben)("approve", str(question.pk)[:8]) == f"{str(question.pk)[:8]} approved: touch made\n"
    stored = await db.read(Approval.objects.select_related("decided_by").get, pk=question.pk)
    assert (stored.status, stored.decision, stored.decided_by) == ("approved", "allow-once", ben)


@pytest.mark.parametrize("groups", [("Approver",), ("Approver", "User")])
async def test_approving_only_needs_the_approvals_scope(claw_as, make_user, ask, groups):
    claw, question = claw_as(make_user(*groups), "operator.approvals"), await ask()
    short = str(question.pk)[:8]
    assert (await claw("list")).startswith(short)
    assert f"plan         {question.plan_hash}\n" in await claw("show", short)
    assert f"request      {question.pk}" in await claw("show", str(question.pk))
    assert await claw("approve", short) == f"{short} approved: touch made\n"


@pytest.mark.parametrize(
    ("given", "scope", "uses", "minutes"),
    [
        (["--for", "15m"], "session", None, 15),
        (["--for", "1h", "--uses", "3", "--scope", "agent"], "agent", 3, 60),
        (["--uses", "5", "--scope", "directory"], "directory", 5, 8 * 60),
        (["--always"], "agent", None, 90 * 24 * 60),
    ],
)
async def test_approval_can_create_a_grant(claw_as, ben, ask, given, scope, uses, minutes):
    question = await ask()
    await claw_as(ben)("approve", str(question.pk), *given)
    grant = await db.read(Grant.objects.get)
    lasts = (grant.expires_at - grant.created_at).total_seconds() / 60
    assert (grant.scope, grant.uses_left, lasts) == (scope, uses, minutes)


async def test_denial_has_a_reason(claw_as, ben, ask):
    question = await ask()
    assert "denied: touch made" in await claw_as(ben)("deny", str(question.pk), "--reason", "use the staging host")
    stored = await db.read(Approval.objects.get, pk=question.pk)
    assert (stored.status, stored.reason) == ("denied", "use the staging host")
    shown = await claw_as(ben)("show", str(question.pk))
    assert "decided      denied by ben: use the staging host\n" in shown


async def test_first_of_two_approvals_is_reported_as_pending(claw_as, ben, ask, make_user):
    question = await ask(two_people=True)
    assert "another approver must approve it too" in await claw_as(ben)("approve", str(question.pk))
    assert "approved     1 of 2: ben\n" in await claw_as(ben)("show", str(question.pk))
    assert await status_of(question) == "pending"
    assert "approved: touch made" in await claw_as(make_user("Approver", "User"))("approve", str(question.pk))


async def test_late_decision_is_rejected_with_the_first_approver(claw_as, ben, ask, make_user):
    question = await ask()
    await db.write(
        approval_requests.resolve_approval, question.pk, by=make_user("Approver", name="cleo"), decision="deny", alone=True
    )
    with pytest.raises(CommandFailed, match=r"CONFLICT: cleo has already decided this request: Denied"):
        await claw_as(ben)("approve", str(question.pk))
    with pytest.raises(CommandFailed, match="no pending request starts with"):
        await claw_as(ben)("approve", str(question.pk)[:8])


async def test_decision_applies_to_the_plan_that_was_read(claw_as, ben, ask, monkeypatch):
    """The plan changes between reading and deciding."""
    question = await ask()
    decision = cli._decision_params

    def change_plan(options):
        Approval.objects.filter(pk=question.pk).update(plan_hash="0" * 64)
        connection.close()  # of this thread
        return decision(options)

    monkeypatch.setattr(cli, "_decision_params", change_plan)
    with pytest.raises(CommandFailed, match="The command you saw is not the one that would run"):
        await claw_as(ben)("approve", str(question.pk))
    assert await status_of(question) == "pending"


@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_missing_permission_to_decide_is_explained(claw_as, ada, ben, ask, action):
    question = await ask()
    for claw in (claw_as(ada), claw_as(ben, "operator.read", "operator.write")):
        with pytest.raises(CommandFailed, match=r"access token with the scope operator\.approvals"):
            await claw(action, str(question.pk))
    with pytest.raises(CommandFailed, match="NOT_FOUND"):
        await claw_as(None)(action, str(question.pk))
    assert await status_of(question) == "pending"
    assert "you          You don’t have permission to approve commands" in await claw_as(ada)("show", str(question.pk)[:8])


async def test_approvers_of_the_exec_rule_are_enforced(claw_as, make_user, make_session, tmp_path):
    both = make_user("Approver", "User", name="both")
    rules = {"exclude_requester": True}
    question = await db.write(park_for_approval, both, make_session(both), tmp_path, why="", alone=True, **rules)
    with pytest.raises(CommandFailed, match="FORBIDDEN: Requesters can’t approve their own commands under this rule"):
        await claw_as(both)("approve", str(question.pk))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "ffffffff"], 1, "no pending request starts with 'ffffffff'"),
        (["show", "ffffffff-ffff-ffff-ffff-ffffffffffff"], 1, "NOT_FOUND: unknown or expired approval id"),
        (["approve", ""], 2, "too short"),
        (["approve", "{id:.3}"], 2, "too short"),
        (["approve", "{id}", "--uses", "0"], 1, "between 1 and 100"),
        (["approve", "{id}", "--for", "0"], 1, "between one minute and eight hours"),
        (["approve", "{id}", "--for", "9h"], 1, "between one minute and eight hours"),
        (["approve", "{id}", "--always", "--for", "1h"], 2, "--always can't be combined with"),
        (["approve", "{id}", "--scope", "agent"], 2, "--scope needs"),
    ],
)
async def test_invalid_commands_fail_and_decide_nothing(claw_as, ben, ask, arguments, code, message):
    question = await ask()
    with pytest.raises(CommandFailed, match=message) as failed:
        await claw_as(ben)(*(each.format(id=str(question.pk)) for each in arguments))
    assert failed.value.code == code
    assert await status_of(question) == "pending"


@pytest.mark.parametrize("time", ["soon", "", "h", "1.5h"])
async def test_invalid_duration_is_a_usage_error(claw_as, ben, time, capsys):
    with pytest.raises(SystemExit) as ended:
        await claw_as(ben)("approve", "3f2a", "--for", time)
    assert ended.value.code == 2
    assert "use 15m, 1h or 90s" in capsys.readouterr().err


async def test_truncated_list_is_marked(claw_as, ben, ask, monkeypatch):
    monkeypatch.setattr(cli, "MAX_LISTED", 1)
    await ask()
    await ask()
    assert (await claw_as(ben)("list")).splitlines()[1:] == ["These are the oldest 1; there may be more."]


async def test_expired_request_cannot_be_decided(claw_as, ben, ask):
    question = await ask()
    await db.write(Approval.objects.filter(pk=question.pk).update, expires_at=clock.now())
    with pytest.raises(CommandFailed, match="CONFLICT: The approval request has expired"):
        await claw_as(ben)("approve", str(question.pk))
