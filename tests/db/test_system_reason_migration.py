"""Reasons that the system stored as English text with approval requests become codes once, by migration."""

import importlib
from types import SimpleNamespace

import pytest

from clawsite.infra.reasons import Reason
from tools_app.approvals import requests  # noqa: F401  # registers the codes

migration = importlib.import_module("tools_app.migrations.0008_system_reasons")
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
