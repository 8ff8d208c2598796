"""The approval pages through Django's test client: who sees what, who can decide, and the effect of a decision."""

import datetime as dt
import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.models import Agent
from clawsite.gateway.protocol.approvals.messages import add_enable_offers
from clawsite.infra import clock
from clawsite.infra.reasons import Reason
from sessions_app.models import SessionMember
from tests.harness.approvals import build_card, build_plan, create_approval, create_approvals
from tests.harness.page_source import compact_html
from tools_app.approvals import grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.command_decision import NO_RULE_CODE
from tools_app.exec.gate.types import Script
from tools_app.models import Approval, ApprovalVote, Command, ExecRule, Grant

pytestmark = pytest.mark.usefixtures("database", "plain_static_files")

HTMX = {"HTTP_HX_REQUEST": "true"}
MOST_QUERIES = 24


def browser(user: Any = None, **more: Any) -> Client:
    client = Client(**more)
    if user is not None:
        client.force_login(user)
    return client


def answer(client: Client, question: Approval, decision: str = "allow-once", *, seen: str | None = None, **more: Any) -> Any:
    data = {"decision": decision, "seen_hash": question.plan_hash if seen is None else seen}
    headers = {key: more.pop(key) for key in list(more) if key.startswith("HTTP_")}
    return client.post(reverse("approval-answer", args=[question.pk]), {**data, **more}, **headers)


def command_of(question: Approval, **more: Any) -> Command:
    """Return the command that resulted from an approval request."""
    common = {name: getattr(question, name) for name in ("session", "run", "generation", "call_id", "plan", "plan_hash")}
    return Command.objects.create(**common, worker="w1", started_at=clock.now(), **more)


def status_of(question: Approval) -> str:
    return Approval.objects.get(pk=question.pk).status


@pytest.fixture
def ada(make_user):
    return make_user(name="ada")


@pytest.fixture
def ben(make_user):
    return make_user("Approver", name="ben")


@pytest.fixture
def question(ada, make_session):
    return create_approval(ada, make_session(ada))


# Visibility


def test_anonymous_user_is_redirected_to_sign_in(question):
    for name, args in (
        ("approvals", []),
        ("approval", [question.pk]),
        ("approvals-history", []),
        ("grants", []),
        ("try-command", []),
    ):
        assert browser().get(reverse(name, args=args)).status_code == 302
    assert answer(browser(), question).status_code == 302
    assert status_of(question) == "pending"


@pytest.mark.parametrize(
    ("groups", "sees", "answers"),
    [
        (("User",), False, False),
        (("Approver",), True, True),
        (("Operator",), False, False),
        (("Auditor",), True, False),
        (("Operator", "Approver"), True, True),
    ],
)
def test_groups_determine_access_to_requests_of_others(groups, sees, answers, make_user, question):
    client = browser(make_user(*groups))
    page = client.get(reverse("approvals"))
    assert page.status_code == 200
    assert (str(question.pk) in page.content.decode()) is sees
    assert client.get(reverse("approval", args=[question.pk])).status_code == (200 if sees else 404)
    assert client.get(reverse("approval-in-chat", args=[question.pk])).status_code == (200 if sees else 404)
    given = answer(client, question, **HTMX)
    assert given.status_code == (200 if answers else 403 if sees else 404)
    assert status_of(question) == ("approved" if answers else "pending")


def test_requester_may_cancel_but_not_decide_own_request(ada, question):
    client = browser(ada)
    page = client.get(reverse("approvals")).content.decode()
    assert "Waiting for approval" in page
    assert "Skip this command" in page
    assert "Approve once" not in page
    assert answer(client, question, **HTMX).status_code == 403
    assert client.post(reverse("approval-drop", args=[question.pk]), **HTMX).status_code == 200
    assert status_of(question) == "denied"
    assert Approval.objects.get(pk=question.pk).decision == "drop"


def test_read_only_user_cannot_cancel_command(make_user, question):
    viewer = make_user(name="viewer")
    SessionMember.objects.create(session=question.session, user=viewer, role=SessionMember.Role.VIEWER)
    client = browser(viewer)
    assert "Skip this command" not in client.get(reverse("approval", args=[question.pk])).content.decode()
    assert client.post(reverse("approval-drop", args=[question.pk]), **HTMX).status_code == 403
    assert status_of(question) == "pending"


def test_approver_without_chat_access_does_not_see_title(ada, ben, make_session):
    session = make_session(ada)
    session.label = "my illness"
    session.save()
    question = create_approval(ada, session)
    page = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert "my illness" not in page
    assert "not shared with you" in page
    assert "my illness" in browser(ada).get(reverse("approval", args=[question.pk])).content.decode()


def test_plain_users_cannot_open_grants_or_command_trial(make_user):
    allowed = {("User",): (403, 403), ("Approver",): (200, 200), ("Operator",): (200, 200), ("Auditor",): (200, 200)}
    for groups, (listing, trying) in allowed.items():
        client = browser(make_user(*groups))
        assert client.get(reverse("grants")).status_code == listing
        assert client.get(reverse("try-command")).status_code == trying


# Decisions


def test_decision_without_csrf_token_is_rejected(ben, question):
    assert answer(browser(ben, enforce_csrf_checks=True), question).status_code == 403
    assert status_of(question) == "pending"


def test_decision_for_unseen_plan_gets_conflict(ben, question):
    for seen in ("", "0" * 64):
        given = answer(browser(ben), question, seen=seen, **HTMX)
        assert given.status_code == 409
        assert "The command you saw is not the one that would run" in given.content.decode()
    assert status_of(question) == "pending"


def test_card_shows_scripts_and_their_hashes(ada, ben, make_session):
    scripts = (Script("/home/ada/work/deploy.py", "ab12" * 16), Script("/home/ada/work/Makefile", ""))
    question = create_approval(ada, make_session(ada), "python3 deploy.py", plan={"scripts": scripts})
    page = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert "/home/ada/work/deploy.py" in page
    assert "ab12ab12ab12<" in page
    assert "/home/ada/work/Makefile" not in page  # missing files are not listed
    in_chat = browser(ben).get(reverse("approval-in-chat", args=[question.pk]), **HTMX).content.decode()
    assert "deploy.py" in in_chat[: in_chat.index('<details class="facts-fold"')].partition("Runs the contents of")[2]


def test_second_decision_gets_conflict_naming_first_approver(ben, make_user, question):
    assert answer(browser(make_user("Approver", name="cleo")), question, "deny", reason="not now", **HTMX).status_code == 200
    late = answer(browser(ben), question, **HTMX)
    assert late.status_code == 409
    assert "cleo has already decided this request" in late.content.decode()
    assert "cleo denied it" in late.content.decode()
    assert "not now" in late.content.decode()
    assert status_of(question) == "denied"


def test_decision_without_javascript_redirects_to_page(ben, question):
    given = answer(browser(ben), question, "deny", reason="no", next="/approvals/?agent=main")
    assert given.status_code == 302
    assert given["Location"] == "/approvals/?agent=main"
    away = answer(browser(ben), create_approval(question.requester, question.session), next="https://evil.example/")
    assert away["Location"] == "/"
    assert Approval.objects.get(pk=question.pk).reason == "no"


@pytest.mark.parametrize(
    ("given", "scope", "uses", "hours"),
    [
        ({"for": "900", "scope": "session"}, "session", None, 0.25),
        ({"for": "28800", "scope": "agent"}, "agent", None, 8),
        ({"for": "uses", "uses": "3", "scope": "directory"}, "directory", 3, 8),
    ],
)
def test_timed_approval_creates_grant(ben, question, given, scope, uses, hours):
    assert answer(browser(ben), question, "allow-for", **given, **HTMX).status_code == 200
    grant = Grant.objects.get()
    assert (grant.scope, grant.uses_left, grant.owner) == (scope, uses, ben)
    assert grant.expires_at is not None
    assert abs((grant.expires_at - clock.now()).total_seconds() - hours * 3600) < 60


@pytest.mark.parametrize("given", [{"for": "uses", "uses": "0"}, {"for": "999999"}, {"for": "", "uses": ""}])
def test_too_wide_grant_terms_are_rejected_with_message(ben, question, given):
    refused = answer(browser(ben), question, "allow-for", scope="session", **given, **HTMX)
    assert refused.status_code == 400
    assert 'role="alert"' in refused.content.decode()
    assert (status_of(question), Grant.objects.count()) == ("pending", 0)


def test_always_option_shows_stored_entry_or_why_unavailable(ada, ben, question):
    page = compact_html(browser(ben).get(reverse("approval", args=[question.pk])).content.decode())
    assert "Always allow…" in page
    assert "/usr/bin/git</code> <code>status --short" in page
    plan = build_plan(question.session, "bash x.sh", call="x")
    shown = build_card(plan, may=["allow-once", "allow-for", "deny"], notNarrow=Reason("gate.every-time").to_json())
    del shown["narrow"]
    other = create_approval(ada, question.session, shown=shown)
    page = browser(ben).get(reverse("approval", args=[other.pk])).content.decode()
    assert "Always allow…" not in page
    assert "Can’t always allow: It needs approval every time." in page
    assert "only this exact command" in page
    assert answer(browser(ben), other, "allow-always", **HTMX).status_code == 400


def test_card_counts_approvals_of_two_approvers(ada, ben, make_user, make_session):
    question = create_approval(ada, make_session(ada), needed=2)
    first = answer(browser(ben), question, **HTMX).content.decode()
    assert "1 of 2 approvals" in first
    assert "ben approved it once" in first
    assert status_of(question) == "pending"
    assert ApprovalVote.objects.count() == 1
    answer(browser(make_user("Approver", name="cleo")), question, **HTMX)
    assert status_of(question) == "approved"


def test_card_counts_approvals_by_current_rules(ada, ben, make_session):
    question = create_approval(ada, make_session(ada))
    ExecRule.objects.create(scope="agent", subject="main", two_people=True)
    address = reverse("approval", args=[question.pk])
    assert "Two approvers are required." in browser(ben).get(address).content.decode()
    assert "1 of 2 approvals" in answer(browser(ben), question, **HTMX).content.decode()


def test_voided_approval_shows_its_reason(ada, ben, question):
    answer(browser(ben), question, reason="fine")
    approval_requests.void_approvals([Approval.objects.get(pk=question.pk)], Reason("approval.lost_permission"))
    for address in (reverse("approval", args=[question.pk]), reverse("approvals-history")):
        page = browser(ben).get(address).content.decode()
        assert "ben approved it once; canceled before it started" in page
        assert "The approver no longer has permission to approve it." in page


def test_two_person_grant_names_both_approvers(ada, ben, make_user, make_session):
    question = create_approval(ada, make_session(ada), needed=2)
    for who in (ben, make_user("Approver", name="cleo")):
        answer(browser(who), question, "allow-always")
    assert "by cleo and ben" in browser(ben).get(reverse("grants")).content.decode()


def test_requester_excluded_by_rule_sees_the_reason(make_user, make_session):
    both = make_user("User", "Approver", name="both")
    question = create_approval(both, make_session(both), exclude_requester=True)
    assert (
        "Requesters can’t approve their own commands under this rule." in browser(both).get(reverse("approvals")).content.decode()
    )
    assert answer(browser(both), question, **HTMX).status_code == 403


def test_extending_keeps_request_open_longer(ben, ada, make_session):
    soon = clock.now() + dt.timedelta(minutes=2)
    question = create_approval(ada, make_session(ada), created_at=clock.now() - dt.timedelta(hours=1), expires_at=soon)
    assert "urgent" in browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert browser(ben).post(reverse("approval-extend", args=[question.pk]), **HTMX).status_code == 200
    assert Approval.objects.get(pk=question.pk).expires_at > soon + dt.timedelta(minutes=30)
    assert browser(ada).post(reverse("approval-extend", args=[question.pk]), **HTMX).status_code == 403


def test_bulk_decision_handles_each_request_separately(ada, ben, make_user, make_session):
    questions = [create_approval(ada, make_session(ada)) for _ in range(3)]
    approval_requests.resolve_approval(questions[1].pk, by=make_user("Approver", name="cleo"), decision="deny")
    chosen = [f"{each.pk}:{each.plan_hash}" for each in questions[:2]] + [f"{questions[2].pk}:{'0' * 64}"]
    given = browser(ben).post(reverse("approvals-several"), {"chosen": chosen, "decision": "allow-once"}, **HTMX)
    assert [status_of(each) for each in questions] == ["approved", "denied", "pending"]
    told = given.content.decode()
    assert "1 decided. 2 failed." in told
    assert "cleo has already decided this request" in told
    assert browser(ada).post(reverse("approvals-several"), {"chosen": chosen, "decision": "deny"}).status_code == 403
    assert browser(ben).post(reverse("approvals-several"), {"chosen": chosen, "decision": "allow-always"}).status_code == 404


# Content


HOSTILE = "echo \u202egnp.exe \u200bx\x07 <img src=x onerror=alert(1)> \u0440wd\u00a0a\u0301\tz\nrm -rf /"


def test_command_characters_are_all_visible_and_escaped(ada, ben, make_session):
    question = create_approval(ada, make_session(ada), HOSTILE, why="<b>Trust me</b> \u202e Approve once")
    page = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    for hidden in ("\u202e", "\u200b", "\x07", "\u00a0", "\u0301"):
        assert hidden not in page
        assert f"⟨U+{ord(hidden):04X}⟩" in page
    assert "<img src=x" not in page
    assert "<b>Trust" not in page
    assert "CYRILLIC SMALL LETTER ER" in page
    assert '<span class="newline">\n</span>' in page
    box = page[page.index('class="would-run"') : page.index('class="agent-says"')]
    assert "Trust me" not in box
    assert "Explanation from the agent, not verified." in page


def test_longest_command_is_shown_in_full(ada, ben, make_session):
    line = "echo " + " ".join(f"word{n}" for n in range(2000))
    question = create_approval(ada, make_session(ada), line)
    page = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert ">word1999</span>" in page
    assert "characters in 1 lines" in page


def test_input_for_running_command_is_labeled(ada, ben, make_session):
    first = create_approval(ada, make_session(ada))
    running = command_of(first, name="quiet-otter")
    question = create_approval(ada, make_session(ada), "y", plan={"input_to": str(running.pk)})
    assert "Input for the running command quiet-otter" in browser(ben).get(reverse("approval", args=[question.pk])).content.decode()


def test_out_of_range_command_part_is_harmless(ada, ben, make_session):
    plan = build_plan(None, "ls", call="x")
    parts = [{"begin": 0, "end": 99, "kind": "program", "note": ""}, {"begin": 0, "end": 2, "kind": '"><x-kind', "note": "<i>"}]
    question = create_approval(ada, make_session(ada), "ls", shown=build_card(plan, parts=parts))
    page = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert "<x-kind" not in page
    assert 'class="part text" title="text: &lt;i&gt;">ls</span>' in page


# Bulk decisions


@pytest.mark.parametrize("name", ["approvals", "approvals-live", "approvals-history"])
def test_approval_list_query_count_is_constant(name, ada, ben, make_session):
    def queries() -> int:
        client = browser(ben)
        client.get(reverse(name))
        with CaptureQueriesContext(connection) as caught:
            assert client.get(reverse(name)).status_code == 200
        return len(caught)

    create_approvals(ada, make_session(ada), 5)
    if name == "approvals-history":
        Approval.objects.update(status="used", decided_at=clock.now(), decided_by=ben, decision="allow-once")
    few = queries()
    for _ in range(9):
        create_approvals(ada, make_session(ada), 5)
    if name == "approvals-history":
        Approval.objects.update(status="used", decided_at=clock.now(), decided_by=ben, decision="allow-once")
    assert queries() == few
    assert few <= MOST_QUERIES


def test_oldest_requests_come_first_twenty_five_per_page(ada, ben, make_session):
    create_approvals(ada, make_session(ada), 35)
    oldest = Approval.objects.first()
    Approval.objects.filter(pk=oldest.pk).update(created_at=clock.now() - dt.timedelta(days=1))
    page = browser(ben).get(reverse("approvals")).content.decode()
    assert page.count("<article") == 25
    assert page.index(f"q-{oldest.pk}") < page.index("<article") + 100
    assert browser(ben).get(reverse("approvals") + "?page=2").content.decode().count("<article") == 10


def test_filters_narrow_the_list(ada, ben, make_user, make_session):
    dora = make_user(name="dora")
    Agent.objects.create(slug="scout", name="Scout")
    mine = create_approval(ada, make_session(ada), "make test")
    hers = create_approval(dora, make_session(dora, "agent:scout:x"), "cargo build", agent="scout")
    for query, found in (
        ("agent=scout", hers),
        ("person=ada", mine),
        (f"chat={hers.session_id}", hers),
        ("program=cargo", hers),
        ("program=MAKE", mine),
    ):
        page = browser(ben).get(f"{reverse('approvals')}?{query}").content.decode()
        assert [str(each.pk) in page for each in (mine, hers)] == [found is mine, found is hers], query
    assert browser(ben).get(reverse("approvals") + "?chat=nonsense").status_code == 400
    assert browser(ben).get(reverse("approvals") + "?page=0").status_code == 400


def test_live_list_includes_newly_decided_requests(ben, make_user, question):
    approval_requests.resolve_approval(question.pk, by=make_user("Approver", name="cleo"), decision="allow-once")
    told = browser(ben).get(reverse("approvals-live"), {"shown": f"{question.pk}:as-it-was"}).content.decode()
    assert "cleo approved it once" in told
    assert "<article" not in browser(ben).get(reverse("approvals-live")).content.decode()


def test_unchanged_card_is_not_sent_again(ben, question):
    client = browser(ben)
    page = client.get(reverse("approvals-live")).content.decode()
    stamp = page.partition('data-stamp="')[2].partition('"')[0]
    told = client.get(reverse("approvals-live"), {"shown": f"{question.pk}:{stamp}"}).content.decode()
    assert "<article" not in told
    approval_requests.extend_approval(question.pk, by=ben)
    assert "<article" in client.get(reverse("approvals-live"), {"shown": f"{question.pk}:{stamp}"}).content.decode()
    assert client.get(reverse("approvals-live"), {"shown": "nonsense"}).status_code == 404


def test_badge_counts_for_approvers_only(ada, ben, question):
    assert browser(ben).get(reverse("approvals-count")).json()["count"] == 1
    assert "data-open-questions" in browser(ben).get(reverse("approvals")).content.decode()
    assert "data-open-questions" not in browser(ada).get(reverse("approvals")).content.decode()


def test_history_shows_user_time_and_outcome(ben, question):
    approval_requests.resolve_approval(question.pk, by=ben, decision="allow-once")
    Approval.objects.filter(pk=question.pk).update(status="used", used_at=clock.now())
    command_of(question, name="quiet-otter", status="exited", exit_code=3)
    page = browser(ben).get(reverse("approvals-history")).content.decode()
    assert "ben approved it once" in page
    assert "exit code 3" in page
    for query, there in (
        ("decided=allowed", True),
        ("decided=denied", False),
        ("by=ben", True),
        ("by=zoe", False),
        ("program=git", True),
    ):
        assert (str(question.pk) in browser(ben).get(f"{reverse('approvals-history')}?{query}").content.decode()) is there, query
    assert browser(ben).get(reverse("approvals-history") + "?decided=x").status_code == 400


# Enabling an agent, grants, trying a command


def test_operator_enables_approval_requests_with_one_click(make_user):
    client = browser(make_user("Operator"))
    assert "Let “main” request commands" in client.get(reverse("approvals")).content.decode()
    done = client.post(reverse("let-ask"), {"agent": "main"}, follow=True).content.decode()
    assert "Agent main can now request commands" in done
    rule = ExecRule.objects.get()
    assert (rule.scope, rule.subject, rule.security, rule.ask) == ("agent", "main", "allowlist", "on-miss")
    assert 'id="let-ask"' not in done


def test_one_click_does_not_override_explicit_deny(make_user):
    ExecRule.objects.create(scope="installation", security="deny")
    client = browser(make_user("Operator"))
    assert "The exec rule for installation denies them" in client.get(reverse("approvals")).content.decode()
    assert "already decides this" in client.post(reverse("let-ask"), {"agent": "main"}, follow=True).content.decode()
    assert ExecRule.objects.count() == 1


def test_only_operators_can_enable_approval_requests(ben, ada):
    for user in (ben, ada):
        assert "An operator can allow it" in browser(user).get(reverse("approvals")).content.decode()
        assert browser(user).post(reverse("let-ask"), {"agent": "main"}).status_code == 403
    assert not ExecRule.objects.exists()


def test_grants_are_listed_and_revoked(ben, question, make_user):
    answer(browser(ben), question, "allow-for", scope="session", uses="4", **{"for": "uses"})
    client = browser(ben)
    page = compact_html(client.get(reverse("grants")).content.decode())
    assert "/usr/bin/git" in page
    assert ">4 of 4</dd>" in page
    assert "Valid for</dt><dd>8 hours<" in page
    grant = Grant.objects.get()
    assert browser(make_user("Auditor")).post(reverse("grant-revoke", args=[grant.pk])).status_code == 403
    assert "Grant revoked." in client.post(reverse("grant-revoke", args=[grant.pk]), follow=True).content.decode()
    assert "revoked by ben" in client.get(reverse("grants") + "?past=1").content.decode()
    assert "This grant is already revoked." in client.post(reverse("grant-revoke", args=[grant.pk]), follow=True).content.decode()


def test_chat_card_summary_shows_risk_facts(ada, ben, make_session):
    hostile = create_approval(ada, make_session(ada), plan={"network": True, "background": True})
    hostile.shown = {**hostile.shown, "writes": ["<b>x</b>"], "touches": ["other processes"]}
    hostile.save()
    shown = compact_html(browser(ben).get(reverse("approval-in-chat", args=[hostile.pk]), **HTMX).content.decode())
    summary = shown[shown.index('<details class="facts-fold"') : shown.index("</summary>")]
    for words in ("Network", "In the background", "other processes", "Writes to &lt;b&gt;x&lt;/b&gt;"):
        assert f">{words}</span>" in summary, words
    hostile.shown = {**hostile.shown, "writes": ["a", "b", "c"]}
    hostile.save()
    assert "Writes to 3 paths" in browser(ben).get(reverse("approval-in-chat", args=[hostile.pk]), **HTMX).content.decode()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"for": "900", "scope": "session"}, "ben approved it for 15 minutes, in this chat"),
        ({"for": "28800", "scope": "agent"}, "ben approved it for 8 hours, for this agent, in all chats"),
        (
            {"for": "uses", "uses": "3", "scope": "directory"},
            "ben approved it once, plus 3 more times within 8 hours, for this agent",
        ),
    ],
)
def test_card_and_history_show_duration_uses_and_scope(given, words, ben, question):
    shown = answer(browser(ben), question, "allow-for", **given, **HTMX).content.decode()
    assert words in shown
    assert words in browser(ben).get(reverse("approvals-history")).content.decode()
    assert "for a while" not in browser(ben).get(reverse("approval", args=[question.pk])).content.decode()


def test_always_option_shows_ninety_day_limit(ben, question):
    assert (
        "ben chose “Always allow” (for 90 days, for this agent"
        in answer(browser(ben), question, "allow-always", **HTMX).content.decode()
    )


def test_grant_list_hides_chat_from_users_without_access(ada, ben, make_user, question):
    both = make_user("Approver", "Auditor", name="zoe")
    answer(browser(ben), question, "allow-for", scope="session", **{"for": "900"})
    session = question.session
    session.title = "Secret plans"
    session.save()
    page = compact_html(browser(ben).get(reverse("grants")).content.decode())
    assert "one chat, agent main" in page
    assert "Valid for</dt><dd>15 minutes<" in page
    assert "Secret plans" not in page
    assert "Secret plans" in browser(both).get(reverse("grants")).content.decode()


def test_request_page_shows_full_details_after_decision(ben, question):
    own = reverse("approval", args=[question.pk])
    shown = answer(browser(ben), question, **HTMX, HTTP_HX_CURRENT_URL=f"http://testserver{own}").content.decode()
    assert "Command details" not in shown
    assert "only this chat" not in shown
    elsewhere = create_approval(question.requester, question.session)
    assert "Command details" in answer(browser(ben), elsewhere, **HTMX).content.decode()


def tried(user: Any, line: str, *, level: int = 2, **more: str) -> str:
    """Return the verdict as htmx gets it."""
    data = {"line": line, "security": "allowlist", "ask": "on-miss", "level": level, **more}
    return compact_html(browser(user).post(reverse("try-command"), data, **HTMX).content.decode())


def test_command_trial_does_not_run_command(ben):
    client = browser(ben)
    assert 'data-effect="allow"' in tried(ben, "ls -la", allow="ls")
    assert 'data-effect="ask"' in tried(ben, "ls -la")
    assert client.post(reverse("try-command"), {"line": "ls", "security": "nonsense", "ask": "x"}, **HTMX).status_code == 200
    page = client.post(
        reverse("try-command"), {"line": "echo \u202e<b>x", "security": "full", "ask": "off"}, **HTMX
    ).content.decode()
    assert 'data-effect="deny"' in page
    assert "⟨U+202E⟩" in page
    assert "<b>" not in page


def test_command_trial_counts_grants_and_names_matching_one(ben, make_user):
    operator = make_user("Operator", name="olga")
    needless = grants.add_manually(["cat"], by=operator, scope="agent", subject="main")
    allows = grants.add_manually(["ls"], by=operator, scope="agent", subject="main")
    page = tried(ben, "ls -la")
    assert 'data-effect="allow"' in page
    assert f'#grant-{allows.pk}">grant #{allows.pk}</a>, by olga: <code>ls</code>' in page
    assert f"grant #{needless.pk}" not in page
    assert f'id="grant-{allows.pk}"' in browser(ben).get(reverse("grants")).content.decode()
    Agent.objects.create(slug="scout", name="Scout")
    assert 'data-effect="ask"' in tried(ben, "ls -la", agent="scout")  # a grant of another user
    assert 'data-effect="ask"' in tried(ben, "ls -la; uname")
    Grant.objects.update(revoked_at=clock.now())
    assert 'data-effect="ask"' in tried(ben, "ls -la")


def test_command_trial_honors_sandbox_requirements(ben):
    page = tried(ben, "ls", level=0, allow="ls")
    assert 'data-effect="ask"' in page
    assert "Without a sandbox, every command needs approval." in page
    ExecRule.objects.create(scope="installation", minimum_level=2)
    page = tried(ben, "ls", level=1, allow="ls")
    assert 'data-effect="deny"' in page
    assert "The exec rules require the sandbox bubblewrap" in page
    assert Approval.objects.count() == 0


# Labels


def test_history_filters_match_badge_labels(ada, ben, make_session):
    for number, status in enumerate(("approved", "used", "denied", "expired", "void")):
        create_approval(ada, make_session(ada, f"agent:main:{number}"), status=status, decided_at=clock.now())
    page = compact_html(browser(ben).get(reverse("approvals-history")).content.decode())
    offered = re.findall(r'<option value="\w+">(\w+)</option>', page)
    badges = re.findall(r'<span class="badge \w*">(\w+)</span>', page)
    assert sorted(set(badges)) == sorted(offered) == ["Approved", "Canceled", "Denied", "Expired"]


@pytest.mark.parametrize(
    ("decision", "words"),
    [("", "Canceled before a decision"), ("allow-once", "ben approved it once; canceled before it started")],
)
def test_void_request_names_its_approver(decision, words, ada, ben, make_session):
    by = {"decided_by": ben, "decision": decision} if decision else {}
    stopped = Reason("approval.run_ended", reason=Reason("run.rpc"))
    create_approval(ada, make_session(ada), status="void", decided_at=clock.now(), system_reason=stopped.to_json(), **by)
    page = browser(ben).get(reverse("approvals-history")).content.decode()
    assert words in page
    assert "The run ended: the user stopped it." in page


def test_history_shows_how_background_command_ended(ada, ben, make_session):
    question = create_approval(ada, make_session(ada), status="used", decided_at=clock.now(), decided_by=ben, decision="allow-once")
    row = command_of(question, name="cmd-1", background=True)
    history = reverse("approvals-history")
    assert "running in the background" in browser(ben).get(history).content.decode()
    Command.objects.filter(pk=row.pk).update(status="exited", exit_code=3, ended_at=row.started_at + dt.timedelta(seconds=75))
    assert "exit code 3, 1 min 15 s" in browser(ben).get(history).content.decode()


def test_timestamps_are_rendered_uniformly(ada, ben, make_session):
    question = create_approval(ada, make_session(ada), needed=2)
    ApprovalVote.objects.create(approval=question, user=ben, at=clock.now(), wish={"decision": "allow-once"})
    create_approval(
        ada, make_session(ada, "agent:main:b"), status="denied", decided_at=clock.now(), decided_by=ben, decision="deny"
    )
    Grant.objects.create(
        scope="installation", entries=[{"pattern": "ls"}], created_at=clock.now(), expires_at=clock.now(), owner=ben
    )
    for address in (reverse("approvals"), reverse("approvals-history"), reverse("grants") + "?past=1"):
        page = browser(ben).get(address).content.decode()
        moments = re.findall(r"<time[^>]*>", page)
        assert moments
        assert all(re.fullmatch(r'<time datetime="\S+" title="[^"]+" aria-live="off" data-ago>', each) for each in moments), moments


def test_agent_reason_renders_code_and_escapes_other_markup(ada, ben, make_session):
    create_approval(ada, make_session(ada), why="first `git log`, **then** <b>x</b> and `a\u202eb` and a lone ` here")
    page = browser(ben).get(reverse("approvals")).content.decode()
    assert "first <code>git log</code>, **then** &lt;b&gt;x&lt;/b&gt; and <code>a" in page
    assert "⟨U+202E⟩</span>b</code> and a lone ` here" in page


# Long responses


@pytest.mark.parametrize(("which", "button"), [("for", "allow-for"), ("always", "allow-always")])
def test_extended_decision_menu_is_loaded_on_demand(which, button, ada, ben, make_user, question):
    listed = browser(ben).get(reverse("approvals")).content.decode()
    address = reverse("approval-menu", args=[question.pk, which])
    assert f'hx-get="{address}"' in listed
    assert f'value="{button}"' not in listed
    assert f'value="{button}"' in browser(ben).get(address).content.decode()
    own = browser(ben).get(reverse("approval", args=[question.pk])).content.decode()
    assert f'value="{button}"' in own  # where users without JavaScript are redirected
    assert reverse("approval", args=[question.pk]) in listed
    assert browser(ada).get(address).status_code == 404  # she can't decide it
    assert browser(make_user()).get(address).status_code == 404
    answer(browser(ben), question)
    assert browser(ben).get(address).status_code == 404


def test_menu_not_offered_returns_404(ada, ben, make_session, question):
    for which in ("once", "deny", "nonsense"):
        assert browser(ben).get(reverse("approval-menu", args=[question.pk, which])).status_code == 404
    plan = build_plan(make_session(ada), "make", call="x")
    every_time = create_approval(ada, make_session(ada), "make", shown=build_card(plan, may=["allow-once", "deny"]))
    assert browser(ben).get(reverse("approval-menu", args=[every_time.pk, "for"])).status_code == 404


# Enabling an agent to request commands


def test_enabling_approval_requests_is_offered_only_when_useful(ada, make_user, make_session):
    session = make_session(ada)

    def offered(code: str) -> bool:
        messages = [{"role": "toolResult", "details": {"code": code}}, {"role": "user"}]
        add_enable_offers(session, messages)
        return messages[0].get("letAsk", False)

    assert offered(NO_RULE_CODE)
    assert not offered("exec_denied")
    rule = ExecRule.objects.create(scope="agent", subject="main", security="deny")
    assert not offered(NO_RULE_CODE)  # commands were denied explicitly
    rule.security = "allowlist"
    rule.save()
    assert not offered(NO_RULE_CODE)
    page = browser(make_user("Operator", "User")).get(reverse("approvals") + "?let=main").content.decode()
    assert "Agent main can already request commands." in page
