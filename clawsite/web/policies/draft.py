"""A rule that is being tried: from the form or the address, beside the one in force at its place. Nothing is stored here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from clawsite.web.policies.query import PLACE_FIELDS, Question, clean
from tools_app.policy.rules import AGENT, GROUP, LISTS, PolicyRules, RuleRow
from tools_app.policy_store.checks import Finding, faults_of, normal_form, split_entries, warnings_of

LONGEST_LIST = 20_000  # characters of a field with entries
CONTENT = ("profile", *LISTS)


@dataclass(frozen=True)
class Draft:
    """`renewed`: it holds what nobody typed, from the question or from the rule in force, so the form has to show it."""

    row: RuleRow
    rules: PolicyRules
    seen: int  # the version its writer had before them
    renewed: bool = False

    @classmethod
    def read(cls, params: Mapping[str, Any], question: Question, rules: PolicyRules) -> "Draft | None":
        """None where nobody has chosen a place. A place alone brings what is in force there."""
        if not clean(params.get("scope", "")):
            return None
        typed = normal_form(**{name: clean(params.get(field, "")) for name, field in PLACE_FIELDS.items()})
        place = _completed(typed, question)
        loaded, seen = clean(params.get("loaded", "")), clean(params.get("seen", ""))
        written = _content(params)
        in_force = _rows(rules)
        untouched = not seen.isdecimal() or (loaded != place.key and written == _content_of(in_force.get(loaded)))
        if untouched:
            return cls(_with(place, _content_of(in_force.get(place.key))), rules, rules.version, renewed=True)
        return cls(_with(place, written), rules, int(seen[:9]), renewed=place != typed)

    @property
    def before(self) -> RuleRow | None:
        """What is in force at its place."""
        return _rows(self.rules).get(self.row.key)

    @property
    def is_same(self) -> bool:
        return _content_of(self.before) == _content_of(self.row)

    @cached_property
    def findings(self) -> list[Finding]:
        """What is wrong, or, if nothing is, what would not do what it looks like."""
        if self.row.is_empty and self.before is None:
            return list(faults_of(self.row))  # nothing is written yet, so there is nothing to doubt
        return list(faults_of(self.row)) or list(warnings_of(self.row, self.rules))

    @property
    def is_faulty(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)

    @property
    def outdated(self) -> bool:
        """Somebody has changed the policy since."""
        return self.seen != self.rules.version

    def rules_with_it(self) -> PolicyRules:
        return self.rules.with_row(self.row)

    def values(self) -> dict[str, Any]:
        """As the fields of the form show it."""
        place = {field: getattr(self.row, name) for name, field in PLACE_FIELDS.items()}
        lists = {name: "\n".join(getattr(self.row, name)) for name in LISTS}
        return {**place, **lists, "profile": self.row.profile, "seen": str(self.seen), "loaded": self.row.key}

    def params(self) -> dict[str, Any]:
        """For an address or a form: what is empty is left out, but for the version, which says that this was written."""
        return {name: value for name, value in self.values().items() if value}


def _completed(place: RuleRow, question: Question) -> RuleRow:
    """What was left out of it is taken from the question."""
    if place.scope == AGENT and not place.subject:
        return normal_form(**place.to_json() | {"subject": question.agent})
    if place.scope == GROUP and not place.channel and not place.group:
        return normal_form(**place.to_json() | {"channel": question.channel, "group": question.group})
    return place


def _content(params: Mapping[str, Any]) -> dict[str, Any]:
    entries = {name: split_entries(str(params.get(name, "")).replace("\0", "")[:LONGEST_LIST]) for name in LISTS}
    return _content_of(normal_form(profile=clean(params.get("profile", "")), **entries))


def _content_of(row: RuleRow | None) -> dict[str, Any]:
    row = row or RuleRow("")
    return {name: getattr(row, name) for name in CONTENT}


def _with(place: RuleRow, content: dict[str, Any]) -> RuleRow:
    return replace(place, **content)


def _rows(rules: PolicyRules) -> dict[str, RuleRow]:
    return {row.key: row for row in rules.rows}
