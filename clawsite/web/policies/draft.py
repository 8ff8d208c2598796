"""A rule that is being tried: from the form or the address, beside the one in force at its place. Nothing is stored here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from clawsite.web.policies.query import SCOPE_FIELDS, ExplainQuery, clean_text
from tools_app.policy.rules import AGENT, GROUP, LIST_FIELDS, PolicyRules, RuleRow
from tools_app.policy_store.checks import PolicyFinding, find_errors, find_warnings, normalize_row, parse_entries

MAX_LIST_LENGTH = 20_000  # characters of a field with entries
CONTENT_FIELDS = ("profile", *LIST_FIELDS)


@dataclass(frozen=True)
class PolicyDraft:
    """`renewed`: it holds what nobody typed, from the question or from the rule in force, so the form has to show it."""

    row: RuleRow
    rules: PolicyRules
    seen: int  # the version its writer had before them
    renewed: bool = False

    @classmethod
    def read(cls, params: Mapping[str, Any], question: ExplainQuery, rules: PolicyRules) -> "PolicyDraft | None":
        """None where nobody has chosen a place. A place alone brings what is in force there."""
        if not clean_text(params.get("scope", "")):
            return None
        typed = normalize_row(**{name: clean_text(params.get(field, "")) for name, field in SCOPE_FIELDS.items()})
        place = _fill_in_scope(typed, question)
        loaded, seen = clean_text(params.get("loaded", "")), clean_text(params.get("seen", ""))
        written = _parse_content(params)
        in_force = _rows_by_key(rules)
        untouched = not seen.isdecimal() or (loaded != place.key and written == _row_content(in_force.get(loaded)))
        if untouched:
            return cls(_with_content(place, _row_content(in_force.get(place.key))), rules, rules.version, renewed=True)
        return cls(_with_content(place, written), rules, int(seen[:9]), renewed=place != typed)

    @property
    def before(self) -> RuleRow | None:
        """What is in force at its place."""
        return _rows_by_key(self.rules).get(self.row.key)

    @property
    def is_same(self) -> bool:
        return _row_content(self.before) == _row_content(self.row)

    @cached_property
    def findings(self) -> list[PolicyFinding]:
        """What is wrong, or, if nothing is, what would not do what it looks like."""
        if self.row.is_empty and self.before is None:
            return list(find_errors(self.row))  # nothing is written yet, so there is nothing to doubt
        return list(find_errors(self.row)) or list(find_warnings(self.row, self.rules))

    @property
    def is_faulty(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)

    @property
    def outdated(self) -> bool:
        """Somebody has changed the policy since."""
        return self.seen != self.rules.version

    def apply_to_rules(self) -> PolicyRules:
        return self.rules.with_row(self.row)

    def values(self) -> dict[str, Any]:
        """As the fields of the form show it."""
        place = {field: getattr(self.row, name) for name, field in SCOPE_FIELDS.items()}
        lists = {name: "\n".join(getattr(self.row, name)) for name in LIST_FIELDS}
        return {**place, **lists, "profile": self.row.profile, "seen": str(self.seen), "loaded": self.row.key}

    def params(self) -> dict[str, Any]:
        """For an address or a form: what is empty is left out, but for the version, which says that this was written."""
        return {name: value for name, value in self.values().items() if value}


def _fill_in_scope(place: RuleRow, question: ExplainQuery) -> RuleRow:
    """What was left out of it is taken from the question."""
    if place.scope == AGENT and not place.subject:
        return normalize_row(**place.to_json() | {"subject": question.agent})
    if place.scope == GROUP and not place.channel and not place.group:
        return normalize_row(**place.to_json() | {"channel": question.channel, "group": question.group})
    return place


def _parse_content(params: Mapping[str, Any]) -> dict[str, Any]:
    entries = {name: parse_entries(str(params.get(name, "")).replace("\0", "")[:MAX_LIST_LENGTH]) for name in LIST_FIELDS}
    return _row_content(normalize_row(profile=clean_text(params.get("profile", "")), **entries))


def _row_content(row: RuleRow | None) -> dict[str, Any]:
    row = row or RuleRow("")
    return {name: getattr(row, name) for name in CONTENT_FIELDS}


def _with_content(place: RuleRow, content: dict[str, Any]) -> RuleRow:
    return replace(place, **content)


def _rows_by_key(rules: PolicyRules) -> dict[str, RuleRow]:
    return {row.key: row for row in rules.rows}
