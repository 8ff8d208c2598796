"""Export, compare and import the policy as a YAML file, so that it can be kept with other configuration."""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import InvalidRequest
from tools_app.models import PolicyTest
from tools_app.policy.expectations import Expectation
from tools_app.policy.rules import LIST_FIELDS, SCOPE_FIELDS, PolicyRules, RuleRow
from tools_app.policy_store.checks import normalize_row
from tools_app.policy_store.policies import current_rules, replace_policies, reserve_version_number
from tools_app.sources.plugins import requires_plugins

FILE_HEADER = """# Tool policy. `claw policy diff FILE` shows what importing it would change; `claw policy import FILE` imports it.
"""
ROW_FIELDS = {*SCOPE_FIELDS, "profile", *LIST_FIELDS}
MAX_LENGTHS = {"name": 120, "expected": 16, "tool": 200, "agent": 64, "provider": 200, "channel": 64, "group": 200, "sender": 200}
ALLOWED_TAGS = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    rows: tuple[RuleRow, ...]
    tests: tuple[Expectation, ...]

    def to_yaml(self) -> str:
        import yaml  # takes 30 ms, and only these commands need it

        rows = [row.to_compact_json() for row in sorted(self.rows, key=lambda row: row.scope_values)]
        tests = [test.to_compact_json() for test in sorted(self.tests, key=lambda test: test.name)]
        return FILE_HEADER + yaml.safe_dump({"policies": rows, "tests": tests}, sort_keys=False, allow_unicode=True, width=120)


def build_current_file(rules: PolicyRules | None = None) -> PolicyFile:
    """Return the current rules, or the given ones, with the current tests: restoring an earlier version keeps all tests."""
    tests = tuple(test.as_expectation() for test in PolicyTest.objects.all())
    return PolicyFile((rules or current_rules()).rows, tests)


def parse_file(text: str) -> PolicyFile:
    """Parse a policy file, or raise InvalidRequest. The rules themselves are validated when they are saved."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads IDs and names as written: `+4915` is not a number, `no` not a boolean, `2026-01-01` not a date."""

        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in known if tag in ALLOWED_TAGS]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        data = yaml.load(text, Loader)  # noqa: S506  a SafeLoader with fewer types
    except yaml.YAMLError as error:
        raise InvalidRequest(f"not valid YAML: {error}") from None
    if not isinstance(data, dict) or not set(data) <= {"policies", "tests"}:
        raise InvalidRequest("a policy file must be a mapping with the keys `policies` and `tests`")
    rows = [_parse_row(each, number) for number, each in enumerate(_read_list(data, "policies"), 1)]
    tests = [_parse_test(each, number) for number, each in enumerate(_read_list(data, "tests"), 1)]
    if duplicates := sorted(name for name, count in Counter(test.name for test in tests).items() if count > 1):
        raise InvalidRequest(f"duplicate test names: {', '.join(duplicates)}")
    return PolicyFile(tuple(rows), tuple(tests))


def diff_with_current(file: PolicyFile) -> str:
    """Return what importing the file would change, as a unified diff; empty if nothing would change."""
    before, after = build_current_file().to_yaml().splitlines(), file.to_yaml().splitlines()
    return "\n".join(difflib.unified_diff(before, after, "in force", "file", lineterm="", n=2))


@requires_plugins
def import_file(file: PolicyFile, *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Replace all rules and tests with the file's and return the new version. The file's rules must pass the file's tests."""
    reserve_version_number(expected_version)  # before any change, so that concurrent imports run one after the other
    PolicyTest.objects.all().delete()
    PolicyTest.objects.bulk_create(
        [
            PolicyTest(**{name: getattr(test, name) for name in (*Expectation.TEXT_FIELDS, *Expectation.FLAG_FIELDS)})
            for test in file.tests
        ]
    )
    author = acting.actor_for_user(changed_by) if changed_by else None
    audit_log.record("settings.changed", actor=author, subject=("policy tests", "all"), change="imported", tests=len(file.tests))
    return replace_policies(file.rows, changed_by=changed_by, expected_version=expected_version)


def _read_list(data: dict[str, Any], name: str) -> Sequence[Any]:
    items = data.get(name) or []
    if not isinstance(items, list):
        raise InvalidRequest(f"`{name}` must be a list")
    return items


def _parse_row(data: Any, number: int) -> RuleRow:
    label = f"policy {number}"
    _check_fields(data, ROW_FIELDS, label)
    lists = {}
    for name in LIST_FIELDS:
        lists[name] = data.get(name) or []
        if not isinstance(lists[name], list):
            raise InvalidRequest(f"{label}: `{name}` must be a list")
        if not all(isinstance(entry, str | None) for entry in lists[name]):
            raise InvalidRequest(f"{label}: `{name}` must be a list of strings")
        lists[name] = [entry or "" for entry in lists[name]]
    return normalize_row(**_read_texts(data, (*SCOPE_FIELDS, "profile"), label), **lists)


def _parse_test(data: Any, number: int) -> Expectation:
    label = f"test {number}"
    _check_fields(data, {*Expectation.TEXT_FIELDS, *Expectation.FLAG_FIELDS}, label)
    texts = _read_texts(data, Expectation.TEXT_FIELDS, label)
    if missing := [name for name in ("name", "expected", "tool") if not texts[name]]:
        raise InvalidRequest(f"{label}: missing {', '.join(missing)}")
    if texts["expected"] not in PolicyTest.Expected.values:
        raise InvalidRequest(f"{label}: `expected` must be one of {', '.join(PolicyTest.Expected.values)}")
    for name, value in texts.items():
        if len(value) > MAX_LENGTHS[name]:
            raise InvalidRequest(f"{label}: `{name}` exceeds {MAX_LENGTHS[name]} characters")
    flags: dict[str, Any] = {name: str(data.get(name) or "false").lower() for name in Expectation.FLAG_FIELDS}
    if invalid := [name for name, value in flags.items() if value not in ("true", "false")]:
        raise InvalidRequest(f"{label}: `{invalid[0]}` must be true or false")
    return Expectation(**texts, **{name: value == "true" for name, value in flags.items()})


def _check_fields(data: Any, known: set[str], label: str) -> None:
    if not isinstance(data, dict):
        raise InvalidRequest(f"{label} is not a mapping")
    if unknown := set(map(str, data)) - known:
        raise InvalidRequest(f"{label} has unknown fields: {', '.join(sorted(unknown))}")


def _read_texts(data: dict[str, Any], names: Iterable[str], label: str) -> dict[str, Any]:
    texts = {name: data.get(name) or "" for name in names}
    if invalid := [name for name, value in texts.items() if not isinstance(value, str)]:
        raise InvalidRequest(f"{label}: `{invalid[0]}` must be a string")
    return {name: value.strip() for name, value in texts.items()}
