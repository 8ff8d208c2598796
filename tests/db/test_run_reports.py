"""Run reports: who can find which runs, what operators don't see, and how time is attributed."""

import datetime as dt

import pytest

from clawsite.infra import clock
from clawsite.infra.errors import NotFound
from clawsite.infra.reasons import Reason
from clawsite.web.runs.labels import run_error_label
from sessions_app.models import Run, Session, SessionMember
from sessions_app.reports import operations as operation_reports
from sessions_app.reports import runs as run_reports
from sessions_app.reports.redaction import redact_event_data
from sessions_app.runs import lifecycle
from tests.harness.recorded_run import create_recorded_run

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def test_run_is_visible_to_session_members_only(user, make_user, make_session):
    run = create_recorded_run(user, make_session(user))
    member, stranger = make_user(), make_user()
    SessionMember.objects.create(session=run.session, user=member)
    assert run_reports.find_viewable_run(member, pk=run.pk).may_read_text
    with pytest.raises(NotFound):
        run_reports.find_viewable_run(stranger, pk=run.pk)


def test_own_run_is_preferred_for_same_key(user, make_user, make_session):
    auditor = make_user("Auditor", "User")
    create_recorded_run(user, make_session(user), "same")
    own = create_recorded_run(auditor, make_session(auditor), "same")
    create_recorded_run(user, make_session(user), "other")
    assert run_reports.find_viewable_run(auditor, run_id="same").run == own
    assert run_reports.find_viewable_run(auditor, run_id="other").run.owner == user


def test_run_of_deleted_session_is_visible_to_operators_only(user, make_user, make_session):
    run = create_recorded_run(user, make_session(user))
    Session.objects.filter(pk=run.session_id).update(deleted_at=clock.now())
    with pytest.raises(NotFound):
        run_reports.find_viewable_run(user, pk=run.pk)
    operator = make_user("Operator")
    assert not run_reports.find_viewable_run(operator, pk=run.pk).may_read_text
    with pytest.raises(NotFound):
        run_reports.find_viewable_run(operator, pk=run.pk, operating=False)


def test_run_report_breaks_down_timings(user, make_session):
    report = run_reports.summarize_run(run_reports.find_viewable_run(user, pk=create_recorded_run(user, make_session(user)).pk))
    times = report["timings"]
    assert times == {"queuedMs": 900, "waitingMs": 0, "toolsMs": 1500, "modelMs": 8050, "firstWordMs": 1900, "totalMs": 10450}
    assert (report["attempts"], [retry["kind"] for retry in report["retries"]]) == (2, ["rate_limit"])
    assert [call["verdict"]["allowed"] for call in report["toolCalls"]] == [True, True, False]
    step = {
        "layer": "agent",
        "effect": "deny",
        "rule": "deny entry `write`",
        "code": "policy.deny_entry",
        "params": {"entry": "write"},
    }
    assert report["toolCalls"][2]["trace"][1] == step


def test_run_aborted_in_queue_has_no_model_time(user, make_session):
    session = make_session(user)
    accepted = lifecycle.accept_run(user=user, session=session, run_id="k", prompt="x")
    lifecycle.request_abort(user=user, session=session, run_id="k")
    report = run_reports.summarize_run(run_reports.find_viewable_run(user, pk=accepted.pk))
    assert (report["run"]["status"], report["run"]["startedAt"], report["timings"]["modelMs"]) == ("aborted", None, 0)


def test_unknown_event_fields_are_redacted():
    told = redact_event_data({"phase": "accepted", "prompt": "secret", "attachments": [{"name": "secret"}], "newField": "secret"})
    assert told == {"phase": "accepted", "characters": 6}
    message = {"role": "assistant", "content": [{"text": "secret"}], "usage": {"input": 1}}
    summed_up = {"phase": "end", "completed": True, "tokensBefore": 9, "tokensAfter": 3, "text": "secret"}
    assert redact_event_data(summed_up) == {"phase": "end", "completed": True, "tokensBefore": 9, "tokensAfter": 3, "characters": 6}
    assert redact_event_data({"final": True, "message": message}) == {
        "final": True,
        "message": {"role": "assistant", "usage": {"input": 1}},
    }


def test_usage_is_counted_by_day_agent_and_model(user, make_session):
    create_recorded_run(user, make_session(user), "a")
    old = create_recorded_run(user, make_session(user), "b", status="error")
    Run.objects.filter(pk=old.pk).update(accepted_at=clock.now() - dt.timedelta(days=3), model="openai/mini")
    forgotten = create_recorded_run(user, make_session(user), "c")
    Run.objects.filter(pk=forgotten.pk).update(accepted_at=clock.now() - dt.timedelta(days=40))
    used = operation_reports.report_usage(30)
    assert len(used.days) == 30
    assert [day.runs for day in used.days.values() if day.runs] == [1, 1]
    assert (used.total.runs, used.total.failed, used.total.cost_microusd) == (2, 1, 16_800)
    assert set(used.models) == {"openai/gpt-5", "openai/mini"}
    assert used.agents["main"].tokens == 5_140


def test_error_is_rendered_from_its_code_or_shown_as_stored():
    code = Reason("run_error.turns_used_up", limit=4)
    assert run_error_label(Run(error="stored text", error_reason=code.to_json())) == code.text
    assert run_error_label(Run(error="stored text")) == "stored text"
