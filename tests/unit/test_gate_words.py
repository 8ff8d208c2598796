"""Every reason that the gate gives is also shown in the reader's language."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import translation

from clawsite.web.approvals.gate_reasons import SHORT_REASONS, gate_reason_text

ROOT = Path(__file__).parents[2]
SOURCES = [
    *sorted((ROOT / "tools_app/exec").rglob("*.py")),
    *sorted((ROOT / "tools_app/approvals").glob("*.py")),
    ROOT / "tools_app/builtin/process.py",
]
CODE = re.compile(r"[a-z]+(-[a-z]+)*")
# Why a command can't be always allowed, which is shown elsewhere; and a request that no gate has analyzed.
NO_REASON = {"never-always", "nothing-to-allow", "open-arguments"}
NOT_OF_THE_GATE = {"outside"}


def codes(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "GateReason",
            "BlockRule",
            "doubt",
            "doubt_files",
        ):
            given = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
        elif isinstance(node, ast.FunctionDef) and node.name in ("doubt", "doubt_files"):
            given = [*node.args.defaults]
        else:
            continue
        yield from (each.value for each in given if isinstance(each, ast.Constant) and CODE.fullmatch(str(each.value)))


def test_every_gate_code_has_a_short_reason() -> None:
    used = {code for path in SOURCES for code in codes(path.read_text())}
    assert {"arguments", "files", "inline-code", "own-guard", "not-allowlisted"} <= used
    assert used - NO_REASON == SHORT_REASONS.keys() - NOT_OF_THE_GATE


@pytest.mark.parametrize(("language", "short"), [("en", ""), ("zh-hans", "有程序不在允许列表中。")])
def test_gate_text_follows_the_short_reason(language: str, short: str) -> None:
    with translation.override(language):
        told = gate_reason_text("not-allowlisted", "<ls> is not on the allowlist.")
    assert (told["short"], told["words"]) == (short, "&lt;ls&gt; is not on the allowlist.")


def test_unknown_code_of_old_approval_request_is_shown() -> None:
    with translation.override("zh-hans"):
        assert gate_reason_text("forgotten", "It was so.") == {"code": "forgotten", "short": "", "words": "It was so."}
