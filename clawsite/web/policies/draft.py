"""A draft rule from the form or URL, compared with the active rule of its scope. Nothing is stored here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from clawsite.web.policies.query import SCOPE_FIELDS, ExplainQuery, clean_text
from tools_app.policy.rules import AGENT, GROUP, LIST_FIELDS, PolicyRules, RuleRow
from tools_app.policy_store.checks import PolicyFinding, find_errors, find_warnings, normalize_row, parse_entries

MAX_LIST_LENGTH = 20_000  # characters in a list field
CONTENT_FIELDS = ("profile", *LIST_FIELDS)


@dataclass(frozen=True)
class PolicyDraft:
    """`renewed` means it contains values from the query or the active rule that the user didn't type, so the form must update."""

    row: RuleRow
    rules: PolicyRules
    seen: int  # the policy version the author saw
    renewed: bool = False

    @classmethod
    def read(cls, params: Mapping[str, Any], explain_query: ExplainQuery, rules: PolicyRules) -> "PolicyDraft | None":
        """Return None if no scope is selected. A scope without content loads the active rule."""
        if not clean_text(params.get("scope", "")):
            return None
        typed = normalize_row(**{name: clean_text(params.get(field, "")) for name, field in SCOPE_FIELDS.items()})
        scope_row = _fill_in_scope(typed, explain_query)
        loaded, seen = clean_text(params.get("loaded", "")), clean_text(params.get("seen", ""))
        content = _parse_content(params)
        active_rows = _rows_by_key(rules)
        untouched = not seen.isdecimal() or (loaded != scope_row.key and content == _row_content(active_rows.get(loaded)))
        if untouched:
            return cls(_with_content(scope_row, _row_content(active_rows.get(scope_row.key))), rules, rules.version, renewed=True)
        return cls(_with_content(scope_row, content), rules, int(seen[:9]), renewed=scope_row != typed)

    @property
    def before(self) -> RuleRow | None:
        """Return the active rule of its scope."""
        return _rows_by_key(self.rules).get(self.row.key)

    @property
    def is_same(self) -> bool:
        return _row_content(self.before) == _row_content(self.row)

    @cached_property
    def findings(self) -> list[PolicyFinding]:
        """Return errors or, if there are none, warnings about rules that don't do what they appear to."""
        if self.row.is_empty and self.before is None:
            return list(find_errors(self.row))  # an empty new rule needs no warnings
        return list(find_errors(self.row)) or list(find_warnings(self.row, self.rules))

    @property
    def is_faulty(self) -> bool:
        return any(finding.level == "error" for finding in self.findings)

    @property
    def outdated(self) -> bool:
        """Return whether the policy has changed since the author saw it."""
        return self.seen != self.rules.version

    def apply_to_rules(self) -> PolicyRules:
        return self.rules.with_row(self.row)

    def values(self) -> dict[str, Any]:
        """Return the values of the form fields."""
        scope = {field: getattr(self.row, name) for name, field in SCOPE_FIELDS.items()}
        lists = {name: "\n".join(getattr(self.row, name)) for name in LIST_FIELDS}
        return {**scope, **lists, "profile": self.row.profile, "seen": str(self.seen), "loaded": self.row.key}

    def params(self) -> dict[str, Any]:
        """Return the nonempty values for a URL or form. The version is always included; it marks the content as edited."""
        return {name: value for name, value in self.values().items() if value}


def _fill_in_scope(scope_row: RuleRow, explain_query: ExplainQuery) -> RuleRow:
    """Take missing scope fields from the query."""
    if scope_row.scope == AGENT and not scope_row.subject:
        return normalize_row(**scope_row.to_json() | {"subject": explain_query.agent})
    if scope_row.scope == GROUP and not scope_row.channel and not scope_row.group:
        return normalize_row(**scope_row.to_json() | {"channel": explain_query.channel, "group": explain_query.group})
    return scope_row


def _parse_content(params: Mapping[str, Any]) -> dict[str, Any]:
    entries = {name: parse_entries(str(params.get(name, "")).replace("\0", "")[:MAX_LIST_LENGTH]) for name in LIST_FIELDS}
    return _row_content(normalize_row(profile=clean_text(params.get("profile", "")), **entries))


def _row_content(row: RuleRow | None) -> dict[str, Any]:
    row = row or RuleRow("")
    return {name: getattr(row, name) for name in CONTENT_FIELDS}


def _with_content(scope_row: RuleRow, content: dict[str, Any]) -> RuleRow:
    return replace(scope_row, **content)


def _rows_by_key(rules: PolicyRules) -> dict[str, RuleRow]:
    return {row.key: row for row in rules.rows}
