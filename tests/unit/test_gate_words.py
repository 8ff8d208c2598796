"""The gate's reasons: the codes clients know, and the texts on pages and in old rows."""

import pytest
from django.utils import translation

from clawsite.infra.reasons import Reason, registered_reasons
from clawsite.web.visible_text import reason_html
from tools_app.exec.gate import verdict  # noqa: F401  # registers the reasons
from tools_app.exec.gate.types import Executable, public_code, read_reason


def test_public_code_is_the_part_after_the_prefix() -> None:
    assert public_code(Reason("gate.write.redirection", finding="x")) == "write"
    assert public_code(Reason("gate.not-found", program="x")) == "not-found"


def test_public_codes_known_to_clients_still_exist() -> None:
    codes = {code.split(".")[1] for code in registered_reasons() if code.startswith("gate.")}
    assert {"arguments", "files", "inline-code", "own-guard", "not-allowlisted", "write", "unread", "ask-always"} <= codes


def test_reason_stored_as_text_keeps_its_code_and_text() -> None:
    reason = read_reason({"code": "forgotten", "words": "It was {so}."})
    assert (public_code(reason), reason.text) == ("forgotten", "It was {so}.")
    with translation.override("zh-hans"):
        assert reason_html(reason) == "It was {so}."


def test_stored_reason_is_read_back() -> None:
    reason = Reason("gate.arguments", program="git", finding=Reason("git.editor", name="commit"))
    assert read_reason(reason.to_json()) == reason


@pytest.mark.parametrize("stored", ["/tools/x does not belong to root", {"code": "file.not_root", "params": {"path": "/tools/x"}}])
def test_distrust_is_read_from_old_and_new_rows(stored: object) -> None:
    row = {"name": "x", "path": "/tools/x", "realpath": "/tools/x", "identity": "1", "bare": "x", "distrust": stored}
    executable = Executable.from_json(row)
    assert executable.distrust
    assert executable.distrust.text.startswith("/tools/x ")
    assert Executable.from_json({**row, "distrust": ""}).to_json()["distrust"] == ""


def test_parameters_of_a_reason_are_shown_character_by_character() -> None:
    reason = Reason("gate.not-allowlisted", program="<ls>", path="/bin/\u202els")
    html = reason_html(reason)
    assert html.startswith("&lt;ls&gt; (")
    assert "⟨U+202E⟩" in html
