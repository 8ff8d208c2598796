"""What the server reads first for every message: the stored state of its session and agent."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from agents.selectors import find_agent_to_run
from clawsite.infra import db, sql
from clawsite.infra.errors import NotFound
from clawsite.routing.inbound import Inbound, SessionAddress, open_session, receive
from sessions_app.models import Run, Session
from sessions_app.origin import Origin, Sender
from sessions_app.run_request import RunRequest
from sessions_app.sessions.service import delete_session
from tools_app.exec.rules import rules_for
from tools_app.models import ExecRule

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

KEY = "agent:main:plans"


def test_agent_to_run_has_its_current_fields():
    Agent.objects.filter(slug="main").update(model="openai/a", max_turns=7, run_timeout_seconds=2.5)
    first, _any_rules = find_agent_to_run("main")
    Agent.objects.filter(slug="main").update(model="openai/b")
    second, _any_rules = find_agent_to_run("main")
    assert (first.model, first.max_turns, first.run_timeout_seconds, first.enabled) == ("openai/a", 7, 2.5, True)
    assert second.model == "openai/b"


def test_agent_to_run_takes_one_statement_and_reports_exec_rules():
    with CaptureQueriesContext(connection) as queries:
        assert find_agent_to_run("main")[1] is False
    assert len(queries) == 1
    ExecRule.objects.create(scope=ExecRule.Scope.INSTALLATION, security=ExecRule.Security.DENY)
    assert find_agent_to_run("main")[1] is True


def test_exec_rules_are_those_stored_now(user):
    group = Group.objects.create(name="reviewers")
    rule = ExecRule.objects.create(scope=ExecRule.Scope.AGENT, subject="main", security="full", timeout_seconds=10)
    first = rules_for("main", "session")
    with CaptureQueriesContext(connection) as queries:
        assert rules_for("main", "session") == first
    assert (first.security, first.timeout_seconds, len(queries)) == ("full", 10, 2)
    ExecRule.objects.filter(pk=rule.pk).update(security="allowlist")
    assert rules_for("main", "session").security == "allowlist"
    rule.approver_groups.add(group)
    assert rules_for("main", "session").approver_groups == ((group.pk,),)
    rule.approver_groups.remove(group)
    assert rules_for("main", "session").approver_groups == ()
    everyone = ExecRule.objects.create(scope=ExecRule.Scope.INSTALLATION, security="deny")
    assert rules_for("main", "session").security == "deny"
    everyone.delete()
    assert rules_for("main", "session").security == "allowlist"
    assert rules_for("other", "session").security == "deny", "unset"


def test_disabled_agent_does_not_run():
    Agent.objects.filter(slug="main").update(enabled=False)
    with pytest.raises(NotFound):
        find_agent_to_run("main")


def test_key_opens_its_session_until_that_is_deleted(user, make_user):
    session = open_session(user, key=KEY, title="plans")
    assert open_session(user, key=KEY).title == "plans"
    assert open_session(make_user("other"), key=KEY) != session
    delete_session(user, session)
    assert open_session(user, key=KEY) != session


def test_session_of_unknown_agent_is_not_created(user):
    with pytest.raises(NotFound):
        open_session(user, key="agent:nobody:plans")
    assert not Session.objects.filter(owner=user).exists()


async def test_messages_to_one_key_share_a_session(user):
    first = await send(user, "one")
    second = await send(user, "two")
    assert (first.session_id, first.session_key) == (second.session_id, KEY)
    assert [run.prompt for run in await db.read(list, Run.objects.order_by("id"))] == ["one", "two"]


async def test_message_needs_no_separate_read_without_row_locks(user, monkeypatch):
    reads, read = [], db._on_reader
    monkeypatch.setattr(db, "_on_reader", lambda *args: reads.append(args) or read(*args))
    await send(user, "one")
    await send(user, "two")
    assert len(reads) == (2 if sql.has_row_locks() else 0)


async def test_message_to_unknown_session_is_refused(user):
    with pytest.raises(NotFound):
        await receive(Inbound(user, "hi", "run", SessionAddress(session_id="11111111-1111-4111-8111-111111111111")))
    with pytest.raises(NotFound):
        await receive(Inbound(user, "hi", "run", SessionAddress("agent:nobody:plans")))


def send(user, text):
    return receive(Inbound(user, text, f"run {text}", SessionAddress(KEY)))


async def test_message_from_a_channel_opens_the_session_of_its_chat(user):
    origin = Origin(
        "telegram", account="bot", group="-100", thread="5", sender=Sender(id="77", username="@anna"), reply_to="-100/5"
    )
    for text in ("one", "two"):
        await receive(Inbound(user, text, f"telegram:{text}", SessionAddress.of_chat(origin, "main"), RunRequest(origin=origin)))
    runs = await db.read(lambda: list(Run.objects.select_related("session").order_by("pk")))
    assert {(run.session.key, run.session.channel) for run in runs} == {("agent:main:telegram:group:-100:thread:5", "telegram")}
    assert [run.request.origin for run in runs] == [origin] * 2
