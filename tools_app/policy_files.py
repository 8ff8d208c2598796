"""The policy as a YAML file: the same rows, to keep beside other configuration, to compare and to bring back."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra.errors import InvalidRequest
from tools_app.models import PolicyTest
from tools_app.policies import current_rules, replace_policies
from tools_app.policy.expectations import Expectation
from tools_app.policy.rules import LISTS, PLACE, PolicyRules, RuleRow
from tools_app.policy_checks import normal_form

HEAD = """# Tool policy. `claw policy diff FILE` shows what importing it would change, `claw policy import FILE` does it.
"""
FIELDS = {*PLACE, "profile", *LISTS}
FLAGS = ("sandboxed", "subagent")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    rows: tuple[RuleRow, ...]
    tests: tuple[Expectation, ...]

    def to_yaml(self) -> str:
        import yaml  # 30 ms, and only these commands need it

        rows = [row.brief() for row in sorted(self.rows, key=lambda row: row.place)]
        tests = [_brief_test(test) for test in sorted(self.tests, key=lambda test: test.name)]
        return HEAD + yaml.safe_dump({"policies": rows, "tests": tests}, sort_keys=False, allow_unicode=True, width=120)


def current_file(rules: PolicyRules | None = None) -> PolicyFile:
    """What is in force now, or an earlier version of the rules; tests have no versions."""
    tests = tuple(test.as_expectation() for test in PolicyTest.objects.all())
    return PolicyFile((rules or current_rules()).rows, tests)


def read_file(text: str) -> PolicyFile:
    """InvalidRequest in words for whatever is not a policy file; whether its rows make sense is looked at when they are saved."""
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidRequest(f"this is not YAML: {error}") from None
    if not isinstance(data, dict) or not set(data) <= {"policies", "tests"}:
        raise InvalidRequest("a policy file has the keys `policies` and `tests`, each a list")
    rows = [_row(each, number) for number, each in enumerate(_list(data, "policies"), 1)]
    tests = [_test(each, number) for number, each in enumerate(_list(data, "tests"), 1)]
    return PolicyFile(tuple(rows), tuple(tests))


def differences(file: PolicyFile) -> str:
    """What importing the file would change, as a unified diff; empty when nothing."""
    before, after = current_file().to_yaml().splitlines(), file.to_yaml().splitlines()
    return "\n".join(difflib.unified_diff(before, after, "in force", "file", lineterm="", n=2))


@transaction.atomic
def import_file(file: PolicyFile, *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Put the file in the place of everything there is, tests first: its rows must pass them; -> the new version."""
    PolicyTest.objects.all().delete()
    PolicyTest.objects.bulk_create(
        [PolicyTest(**{name: getattr(test, name) for name in (*Expectation.WORDS, *FLAGS)}) for test in file.tests]
    )
    return replace_policies(file.rows, changed_by=changed_by, expected_version=expected_version)


def _list(data: dict[str, Any], name: str) -> Sequence[Any]:
    found = data.get(name) or []
    if not isinstance(found, list):
        raise InvalidRequest(f"`{name}` is a list")
    return found


def _row(data: Any, number: int) -> RuleRow:
    _only(data, FIELDS, f"policy {number}")
    for name in LISTS:
        if not isinstance(data.get(name, []), list):
            raise InvalidRequest(f"policy {number}: `{name}` is a list")
    return normal_form(**{**data, **{name: [str(entry) for entry in data.get(name, [])] for name in LISTS}})


def _test(data: Any, number: int) -> Expectation:
    _only(data, {*Expectation.WORDS, *FLAGS}, f"test {number}")
    if missing := {"name", "expected", "tool"} - set(data):
        raise InvalidRequest(f"test {number} lacks {', '.join(sorted(missing))}")
    if data["expected"] not in PolicyTest.Expected.values:
        raise InvalidRequest(f"test {number}: `expected` is one of {', '.join(PolicyTest.Expected.values)}")
    values: dict[str, Any] = {name: str(data.get(name, "")) for name in Expectation.WORDS}
    return Expectation(**values | {name: bool(data.get(name, False)) for name in FLAGS})


def _only(data: Any, known: set[str], what: str) -> None:
    if not isinstance(data, dict):
        raise InvalidRequest(f"{what} is not a mapping")
    if unknown := set(map(str, data)) - known:
        raise InvalidRequest(f"{what} has unknown fields: {', '.join(sorted(unknown))}")


def _brief_test(test: Expectation) -> dict[str, Any]:
    values = {name: getattr(test, name) for name in (*Expectation.WORDS, *FLAGS)}
    return {name: value for name, value in values.items() if value}
