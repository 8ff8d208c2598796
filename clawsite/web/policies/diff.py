"""What differs between two versions of the rules, place by place, for people to read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from django.utils.translation import gettext as _

from clawsite.web.policies.labels import FIELD_WORDS, place_words
from tools_app.models import PolicyTest
from tools_app.policy.rules import LISTS, PolicyRules, RuleRow


@dataclass(frozen=True, slots=True)
class Line:
    sign: Literal["+", "-"]
    field: str
    words: str

    @property
    def spoken(self) -> str:
        """The sign, for those who hear the page."""
        return _("added") if self.sign == "+" else _("removed")


@dataclass(frozen=True, slots=True)
class Change:
    key: str
    place: str
    kind: Literal["new", "gone", "changed"]
    lines: tuple[Line, ...]


def changes(before: PolicyRules, after: PolicyRules) -> list[Change]:
    """Those places that do not say the same; in the order of their keys."""
    old, new = ({row.key: row for row in rules.rows} for rules in (before, after))
    found = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was == now:
            continue
        kind: Literal["new", "gone", "changed"] = "new" if was is None else "gone" if now is None else "changed"
        row = now or was
        if row is not None:
            found.append(Change(key, place_words(row), kind, tuple(_lines(was or RuleRow(""), now or RuleRow("")))))
    return found


def changes_of_tests(before: Sequence[dict[str, Any]] | None, after: Sequence[dict[str, Any]] | None) -> list[Line]:
    """The policy tests that came and went; none where a version was made before they were kept."""
    if before is None or after is None:
        return []
    gone = [Line("-", "", _test_words(test)) for test in before if test not in after]
    return gone + [Line("+", "", _test_words(test)) for test in after if test not in before]


def _test_words(test: dict[str, Any]) -> str:
    expected = PolicyTest.Expected(test["expected"]).label
    said = [
        test["name"],
        f"{test.get('agent') or _('every agent')} {expected} {test['tool']}",
        test.get("provider"),
        " ".join(filter(None, (test.get("channel"), test.get("group")))),
        test.get("sender"),
        test.get("sandboxed") and _("in a sandbox"),
        test.get("subagent") and _("as a subagent"),
    ]
    return " · ".join(filter(None, said))


def _lines(was: RuleRow, now: RuleRow) -> Iterator[Line]:
    if was.profile != now.profile:
        if was.profile:
            yield Line("-", str(FIELD_WORDS["profile"]), was.profile)
        if now.profile:
            yield Line("+", str(FIELD_WORDS["profile"]), now.profile)
    for name in LISTS:
        old, new = getattr(was, name), getattr(now, name)
        yield from (Line("-", str(FIELD_WORDS[name]), entry) for entry in old if entry not in new)
        yield from (Line("+", str(FIELD_WORDS[name]), entry) for entry in new if entry not in old)
