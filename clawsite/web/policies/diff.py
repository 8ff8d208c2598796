"""Readable differences between two versions of the rules, by scope."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _

from clawsite.web.policies.labels import FIELD_LABELS, scope_label
from tools_app.models import PolicyTest
from tools_app.policy.rules import LIST_FIELDS, PolicyRules, RuleRow


@dataclass(frozen=True, slots=True)
class DiffLine:
    sign: Literal["+", "-"]
    field: str
    words: str

    @property
    def spoken(self) -> str:
        """Return the sign as text for screen readers."""
        return _("added") if self.sign == "+" else _("removed")


@dataclass(frozen=True, slots=True)
class RuleChange:
    key: str
    place: str
    kind: Literal["new", "gone", "changed"]
    lines: tuple[DiffLine, ...]


def diff_rules(before: PolicyRules, after: PolicyRules) -> list[RuleChange]:
    """Return the rules that differ, ordered by key."""
    old, new = ({row.key: row for row in rules.rows} for rules in (before, after))
    changes = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        kind: Literal["new", "gone", "changed"] = "new" if was is None else "gone" if now is None else "changed"
        row = now or was
        if row is not None:
            changes.append(RuleChange(key, scope_label(row), kind, tuple(_diff_lines(was or RuleRow(""), now or RuleRow("")))))
    return changes


def diff_tests(before: Sequence[dict[str, Any]] | None, after: Sequence[dict[str, Any]] | None) -> list[DiffLine]:
    """Return added and removed policy tests; empty if a version predates stored tests."""
    if before is None or after is None:
        return []
    removed = [DiffLine("-", "", _describe_test(test)) for test in before if test not in after]
    return removed + [DiffLine("+", "", _describe_test(test)) for test in after if test not in before]


def _describe_test(test: dict[str, Any]) -> str:
    expected = PolicyTest.Expected(test["expected"]).label
    parts = [
        test["name"],
        f"{test.get('agent') or _('every agent')} {expected} {test['tool']}",
        test.get("provider"),
        " ".join(filter(None, (test.get("channel"), test.get("group")))),
        test.get("sender"),
        test.get("sandboxed") and _("in a sandbox"),
        test.get("subagent") and _("as a subagent"),
    ]
    return " · ".join(filter(None, parts))


def _diff_lines(was: RuleRow, now: RuleRow) -> Iterator[DiffLine]:
    if was.profile != now.profile:
        if was.profile:
            yield DiffLine("-", str(FIELD_LABELS["profile"]), was.profile)
        if now.profile:
            yield DiffLine("+", str(FIELD_LABELS["profile"]), now.profile)
    for name in LIST_FIELDS:
        old, new = getattr(was, name), getattr(now, name)
        yield from (DiffLine("-", str(FIELD_LABELS[name]), entry) for entry in old if entry not in new)
        yield from (DiffLine("+", str(FIELD_LABELS[name]), entry) for entry in new if entry not in old)
