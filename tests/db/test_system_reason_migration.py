"""Reasons that the system stored as English text with approval requests become codes once, by migration."""

import importlib
from types import SimpleNamespace

import pytest
from django.apps import apps
from django.db import connection

from clawsite.infra.reasons import Reason
from tests.harness.approvals import create_approval, create_approvals
from tools_app.approvals import requests  # noqa: F401  # registers the codes
from tools_app.models import Approval

pytestmark = pytest.mark.dialect

migration = importlib.import_module("tools_app.migrations.0009_convert_system_reasons")
CONVERTED = {
    "nobody answered in time": Reason("approval.expired"),
    "whoever asked for it does not want it any more": Reason("approval.skipped"),
    "who approved it may not approve it any more": Reason("approval.lost_permission"),
    "by now the rules want two people to agree": Reason("approval.two_approvers"),
    "the run was stopped (rpc)": Reason("approval.run_ended", reason=Reason("run.rpc")),
    "the run ended (poisoned)": Reason("approval.run_ended", reason=Reason("run.poisoned")),
    "the run ended (some_code)": Reason("approval.run_ended", reason=Reason("run.other", code="some_code")),
    "exec_denied: it changed. It did not run.": Reason("legacy", text="exec_denied: it changed. It did not run."),
}


@pytest.mark.parametrize("text", CONVERTED)
def test_text_of_earlier_version_becomes_a_code(text: str) -> None:
    assert Reason.from_json(migration.to_reason(text)) == CONVERTED[text]


@pytest.mark.parametrize(
    ("row", "reason", "code"),
    [
        (("denied", "deny", "nobody answered in time", ""), "nobody answered in time", None),
        (("expired", "", "nobody answered in time", ""), "", "approval.expired"),
        (("denied", "drop", "whoever asked for it does not want it any more", ""), "", "approval.skipped"),
        (("void", "", "the run was stopped (rpc)", ""), "", "approval.run_ended"),
        (("void", "allow-once", "go on", "by now the rules want two people to agree"), "go on", "approval.two_approvers"),
        (("void", "allow-once", "go on", ""), "go on", None),
    ],
)
def test_words_of_people_stay_words(row: tuple[str, str, str, str], reason: str, code: str | None) -> None:
    status, decision, given, void_reason = row
    approval = SimpleNamespace(status=status, decision=decision, reason=given, void_reason=void_reason, system_reason=None)
    assert migration.separate_reason(approval) is (code is not None)
    assert (approval.reason, (approval.system_reason or {}).get("code")) == (reason, code)


def test_converts_stored_requests_in_chunks_and_can_be_repeated(user, make_session, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(migration, "CHUNK", 2)
    create_approvals(user, make_session(user), 5)
    Approval.objects.update(status="expired", reason="nobody answered in time")
    with django_assert_max_num_queries(14):  # 5 reads and 3 writes, each between the two queries of a savepoint
        for _ in range(2):
            migration.separate_reasons(apps, SimpleNamespace(connection=connection))
    rows = Approval.objects.values_list("reason", "system_reason__code").distinct()
    assert list(rows) == [("", "approval.expired")]


def test_previous_version_can_still_use_its_column(user, make_session):
    question = create_approval(user, make_session(user))
    with connection.cursor() as cursor:
        cursor.execute("SELECT void_reason FROM tools_app_approval")
        assert cursor.fetchone() == ("",)
        cursor.execute("UPDATE tools_app_approval SET void_reason = %s", ["the run was stopped (rpc)"])
    question.refresh_from_db()
    assert question.void_reason == "the run was stopped (rpc)"
