"""What allowed a command is stored with its call, as of the command's start: an approver, a grant, or the rules."""

import pytest
from django.db import transaction
from django.utils import translation

from clawsite.gateway.protocol.approvals.messages import add_approvals
from clawsite.infra import clock
from sessions_app.models import Event, ToolCall
from sessions_app.reports.redaction import redact_event_data
from sessions_app.runs import tool_calls
from sessions_app.runs.tool_calls import CallDecision
from sessions_app.verdicts import build_verdict, translate_verdict
from tests.harness.approvals import (
    ALLOWED_VERDICT,
    allow_approval_requests,
    claim_run,
    decide_plan,
    plan_command,
    request_approval,
)
from tests.harness.waits import park
from tools_app.approvals import grants
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.command_decision import use_approval_or_grants
from tools_app.approvals.grants import GrantTerms
from tools_app.models import Grant

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@pytest.fixture
def claimed(user, make_session):
    allow_approval_requests()
    return claim_run(user, make_session(user))


@pytest.fixture
def approver(make_user):
    return make_user("Approver", "User", name="ada")


def started(claimed, workspace, line="touch made", call="c1"):
    """Decide a call and start it, as the worker does; return what clients receive about it."""
    plan = plan_command(claimed, workspace, line, call=call)
    decided = decide_plan(claimed, plan)
    assert decided.effect == "allow", decided
    verdict = {**ALLOWED_VERDICT, "trace": {"exec": [{"layer": "profile", "effect": "allow", "rule": "profile `coding`"}]}}
    with transaction.atomic():
        tool_calls.record_decisions(
            claimed, [CallDecision(call, "exec", {"command": line}, ToolCall.Status.ALLOWED, verdict=verdict)]
        )
    with transaction.atomic():
        assert use_approval_or_grants(claimed, plan, decided) is None
        tool_calls.mark_started(claimed, call, "exec", {"command": line})
    with transaction.atomic():
        tool_calls.record_result(claimed, call, "exec", {"content": [], "details": {}}, text="", is_error=False)
    row = ToolCall.objects.values("name", "status", "refused_by", "verdict").get(run=claimed.pk, call_id=call)
    return build_verdict(row)


def told_at_the_end(claimed, call="c1"):
    """Return the meta of its result, as the chat's members receive it."""
    events = Event.objects.filter(run=claimed.pk, stream="tool").order_by("seq")
    return next(each.data["meta"] for each in events if each.data["phase"] == "result" and each.data["toolCallId"] == call)


def words(verdict):
    with translation.override("en"):
        return translate_verdict(verdict)


def test_one_time_approval_names_approver_and_layer(claimed, approver, tmp_path):
    question = request_approval(claimed, tmp_path)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-once")
    verdict = started(claimed, tmp_path)
    admission = {"by": "answer", "approval": str(question.pk), "decision": "allow-once", "person": "ada"}
    assert verdict["admission"] == admission
    assert verdict["layer"] == "profile"
    assert verdict["why"] == "approved by ada (allow-once); allowed by layer profile: profile `coding`"
    assert words(verdict) == "approved once by ada"
    assert told_at_the_end(claimed) == {"verdict": "allowed", "layer": "profile", "admission": admission}


@pytest.mark.parametrize(
    ("wish", "extent"),
    [
        (GrantTerms("session", 900), "for 15 minutes, in this chat"),
        (GrantTerms("agent", 3600), "for 1 hour, for this agent, in all chats"),
        (GrantTerms("directory", None, 5), "once, plus 5 more times within 8 hours, for this agent, in this directory"),
        (GrantTerms("session", 5400, 1), "once, plus 1 more time within 90 minutes, in this chat"),
    ],
)
def test_timed_approval_shows_duration_uses_and_scope(wish, extent, claimed, approver, tmp_path):
    question = request_approval(claimed, tmp_path)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=wish)
    assert words(started(claimed, tmp_path)) == f"approved by ada: {extent}"


def test_always_approval_shows_its_duration(claimed, approver, tmp_path):
    approval_requests.resolve_approval(request_approval(claimed, tmp_path).pk, by=approver, decision="allow-always")
    assert words(started(claimed, tmp_path)) == "allowed always by ada: for 90 days, for this agent, in all chats"


def test_grant_admission_names_grant_and_remaining_uses(claimed, approver, tmp_path):
    question = request_approval(claimed, tmp_path)
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900, 3))
    started(claimed, tmp_path)
    verdict = started(claimed, tmp_path, call="c2")
    grant = Grant.objects.get()
    told = {"id": grant.pk, "person": "ada", "scope": "session", "expiresAt": clock.to_ms(grant.expires_at), "usesLeft": 2}
    assert verdict["admission"] == {"by": "grant", "grants": [told]}
    assert words(verdict).startswith(f"allowed by grant #{grant.pk} from ada, in this chat, until ")
    assert words(verdict).endswith(", 2 uses left")
    grants.revoke_grant(grant.pk, by=approver)
    again = ToolCall.objects.values("name", "status", "refused_by", "verdict").get(run=claimed.pk, call_id="c2")
    assert build_verdict(again) == verdict  # the grant was active when the command started


def test_admission_without_approval_names_exec_rules(user, make_session, tmp_path):
    allow_approval_requests(security="full", ask="off")
    verdict = started(claim_run(user, make_session(user)), tmp_path)
    assert verdict["admission"] == {"by": "rules"}
    assert words(verdict) == "allowed by the exec rules, without approval"


def test_approval_event_carries_grant_scope_and_duration(claimed, approver, user, tmp_path):
    question = request_approval(claimed, tmp_path)
    with transaction.atomic():
        park(claimed)  # no worker holds the run, so the decision itself is announced
    approval_requests.resolve_approval(question.pk, by=approver, decision="allow-for", terms=GrantTerms("session", 900))
    granted = {"grant": Grant.objects.get().pk, "scope": "session", "seconds": 900, "uses": None}
    decided = Event.objects.filter(run=claimed.pk, stream="tool").order_by("-seq")[0].data
    assert decided["approval"]["granted"] == granted
    assert redact_event_data(decided)["approval"]["granted"] == granted  # grant facts contain no message text
    block = {"type": "toolCall", "id": "c1", "name": "exec", "arguments": {}}
    message = {"role": "assistant", "runId": question.run.run_id, "content": [block]}
    add_approvals(question.session, [message])
    assert message["approvals"]["c1"]["granted"] == granted
