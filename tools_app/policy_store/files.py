"""The policy as a YAML file: the same rows, to keep beside other configuration, to compare and to bring back."""

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

FILE_HEADER = """# Tool policy. `claw policy diff FILE` shows what importing it would change, `claw policy import FILE` does it.
"""
ROW_FIELDS = {*SCOPE_FIELDS, "profile", *LIST_FIELDS}
MAX_LENGTHS = {"name": 120, "expected": 16, "tool": 200, "agent": 64, "provider": 200, "channel": 64, "group": 200, "sender": 200}
ALLOWED_TAGS = ("tag:yaml.org,2002:null", "tag:yaml.org,2002:merge")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    rows: tuple[RuleRow, ...]
    tests: tuple[Expectation, ...]

    def to_yaml(self) -> str:
        import yaml  # 30 ms, and only these commands need it

        rows = [row.to_compact_json() for row in sorted(self.rows, key=lambda row: row.place)]
        tests = [test.to_compact_json() for test in sorted(self.tests, key=lambda test: test.name)]
        return FILE_HEADER + yaml.safe_dump({"policies": rows, "tests": tests}, sort_keys=False, allow_unicode=True, width=120)


def build_current_file(rules: PolicyRules | None = None) -> PolicyFile:
    """What is in force now, or an earlier version of the rules, with the tests of now: a step back takes none away."""
    tests = tuple(test.as_expectation() for test in PolicyTest.objects.all())
    return PolicyFile((rules or current_rules()).rows, tests)


def parse_file(text: str) -> PolicyFile:
    """InvalidRequest in words for whatever is not a policy file; whether its rows make sense is looked at when they are saved."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Ids and names stay as they are written: `+4915` is no number, `no` no answer, `2026-01-01` no day."""

        yaml_implicit_resolvers = {
            first: [(tag, pattern) for tag, pattern in known if tag in ALLOWED_TAGS]
            for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    try:
        data = yaml.load(text, Loader)  # noqa: S506  a SafeLoader that knows less
    except yaml.YAMLError as error:
        raise InvalidRequest(f"this is not YAML: {error}") from None
    if not isinstance(data, dict) or not set(data) <= {"policies", "tests"}:
        raise InvalidRequest("a policy file has the keys `policies` and `tests`, each a list")
    rows = [_parse_row(each, number) for number, each in enumerate(_read_list(data, "policies"), 1)]
    tests = [_parse_test(each, number) for number, each in enumerate(_read_list(data, "tests"), 1)]
    if twice := sorted(name for name, times in Counter(test.name for test in tests).items() if times > 1):
        raise InvalidRequest(f"these tests stand there twice: {', '.join(twice)}")
    return PolicyFile(tuple(rows), tuple(tests))


def diff_with_current(file: PolicyFile) -> str:
    """What importing the file would change, as a unified diff; empty when nothing."""
    before, after = build_current_file().to_yaml().splitlines(), file.to_yaml().splitlines()
    return "\n".join(difflib.unified_diff(before, after, "in force", "file", lineterm="", n=2))


@requires_plugins
def import_file(file: PolicyFile, *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Put the file in the place of everything there is, tests first: its rows must pass them; -> the new version."""
    reserve_version_number(expected_version)  # before anything is touched, so that a second import waits for the first
    PolicyTest.objects.all().delete()
    PolicyTest.objects.bulk_create(
        [PolicyTest(**{name: getattr(test, name) for name in (*Expectation.WORDS, *Expectation.FLAGS)}) for test in file.tests]
    )
    author = acting.actor_for_user(changed_by) if changed_by else None
    audit_log.record("settings.changed", actor=author, subject=("policy tests", "all"), change="imported", tests=len(file.tests))
    return replace_policies(file.rows, changed_by=changed_by, expected_version=expected_version)


def _read_list(data: dict[str, Any], name: str) -> Sequence[Any]:
    found = data.get(name) or []
    if not isinstance(found, list):
        raise InvalidRequest(f"`{name}` is a list")
    return found


def _parse_row(data: Any, number: int) -> RuleRow:
    what = f"policy {number}"
    _check_fields(data, ROW_FIELDS, what)
    lists = {}
    for name in LIST_FIELDS:
        lists[name] = data.get(name) or []
        if not isinstance(lists[name], list):
            raise InvalidRequest(f"{what}: `{name}` is a list")
        if not all(isinstance(entry, str | None) for entry in lists[name]):
            raise InvalidRequest(f"{what}: `{name}` is a list of words")
        lists[name] = [entry or "" for entry in lists[name]]
    return normalize_row(**_read_texts(data, (*SCOPE_FIELDS, "profile"), what), **lists)


def _parse_test(data: Any, number: int) -> Expectation:
    what = f"test {number}"
    _check_fields(data, {*Expectation.WORDS, *Expectation.FLAGS}, what)
    words = _read_texts(data, Expectation.WORDS, what)
    if missing := [name for name in ("name", "expected", "tool") if not words[name]]:
        raise InvalidRequest(f"{what} lacks {', '.join(missing)}")
    if words["expected"] not in PolicyTest.Expected.values:
        raise InvalidRequest(f"{what}: `expected` is one of {', '.join(PolicyTest.Expected.values)}")
    for name, value in words.items():
        if len(value) > MAX_LENGTHS[name]:
            raise InvalidRequest(f"{what}: `{name}` has more than {MAX_LENGTHS[name]} characters")
    flags: dict[str, Any] = {name: str(data.get(name) or "false").lower() for name in Expectation.FLAGS}
    if wrong := [name for name, value in flags.items() if value not in ("true", "false")]:
        raise InvalidRequest(f"{what}: `{wrong[0]}` is true or false")
    return Expectation(**words, **{name: value == "true" for name, value in flags.items()})


def _check_fields(data: Any, known: set[str], what: str) -> None:
    if not isinstance(data, dict):
        raise InvalidRequest(f"{what} is not a mapping")
    if unknown := set(map(str, data)) - known:
        raise InvalidRequest(f"{what} has unknown fields: {', '.join(sorted(unknown))}")


def _read_texts(data: dict[str, Any], names: Iterable[str], what: str) -> dict[str, Any]:
    found = {name: data.get(name) or "" for name in names}
    if wrong := [name for name, value in found.items() if not isinstance(value, str)]:
        raise InvalidRequest(f"{what}: `{wrong[0]}` is one word, not a list")
    return {name: value.strip() for name, value in found.items()}
