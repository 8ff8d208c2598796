"""Exec rules of the server, the agent and the session, merged: the strictest value wins, field by field.

Unset fields have safe defaults: commands are denied unless a rule allows them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Conflict, Forbidden
from clawsite.infra.row_cache import RowCache, State
from sessions_app.runs.types import ClaimedRun
from tools_app.exec.gate.types import Ask, Security
from tools_app.models import ExecRule

SCOPES = (ExecRule.Scope.INSTALLATION, ExecRule.Scope.AGENT, ExecRule.Scope.SESSION)

# Strictest first. Booleans and numbers are merged by the functions in STRICTER_OF.
STRICTEST_FIRST: dict[str, Sequence[str]] = {
    "security": ("deny", "allowlist", "full"),
    "ask": ("always", "on-miss", "off"),
    "ask_fallback": ("deny", "allowlist"),
    "sandbox_mode": ("all", "groups", "off"),
    "sandbox_scope": ("session", "agent", "shared"),
    "workspace_access": ("none", "ro", "rw"),
}
STRICTER_OF: dict[str, Any] = {
    "exclude_requester": any,
    "two_people": any,
    "network": all,
    "unsafe_without_isolation": all,
    "expires_seconds": min,
    "timeout_seconds": min,
    "minimum_level": max,
}


@dataclass(frozen=True, slots=True)
class ExecRules:
    """The merged rules for one agent in one session. `set_by` maps each explicitly set field to the scope that decided it."""

    security: Security = "deny"
    ask: Ask = "on-miss"
    ask_fallback: str = "deny"
    sandbox_mode: str = "groups"
    sandbox_scope: str = "session"
    workspace_access: str = "none"
    exclude_requester: bool = False
    two_people: bool = False
    network: bool = False
    unsafe_without_isolation: bool = False
    expires_seconds: int = 24 * 3600
    timeout_seconds: int = 30 * 60
    minimum_level: int = 0
    approver_groups: tuple[tuple[int, ...], ...] = ()  # group IDs (names can change); approvers must be in one group of each tuple
    set_by: dict[str, str] = field(default_factory=dict)


def rules_for_run(claimed: ClaimedRun) -> ExecRules:
    """The rules for a run, including those of the agents and sessions its message came through.

    An agent may not have another agent do what it may not do itself.
    """
    return rules_for(claimed.agent, str(claimed.session_id), claimed.request.origin.through)


def rules_for(agent: str, session_id: str, through: Iterable[Sequence[str]] = ()) -> ExecRules:
    """The current rules for an agent in a session, including those for `through`, pairs of agent and session."""
    return rules_for_many([[(agent, session_id), *through]])[0]


def rules_for_many(scopes: Sequence[Sequence[Sequence[str]]]) -> list[ExecRules]:
    """Like rules_for, but for many at once. Each item lists the pairs of agent and session whose rules apply."""
    subjects = sorted({"", *(name for pairs in scopes for pair in pairs for name in pair)})
    rows = _stored_rules.find(tuple(subjects)) or []
    return [merge_rules(row for row in rows if row.subject in _subjects(pairs)[ExecRule.Scope(row.scope)]) for pairs in scopes]


def _read_rows(subjects: tuple[str, ...]) -> State | None:
    """Read the rules and their groups with plain SQL: every run does so when it starts, and a command several times."""
    rows = sql.fetch_rows(f"SELECT {_COLUMNS} FROM {_TABLE} WHERE subject IN ({sql.placeholders(subjects)}) ORDER BY id", subjects)
    if not rows:
        return None
    pks = [row[0] for row in rows]
    groups = sql.fetch_rows(f"SELECT execrule_id, group_id FROM {_GROUPS} WHERE execrule_id IN ({sql.placeholders(pks)})", pks)
    return (*rows, frozenset(groups))


def _load_rules(subjects: tuple[str, ...]) -> list[ExecRule]:
    return list(ExecRule.objects.filter(subject__in=subjects).prefetch_related("approver_groups").order_by("pk"))


_TABLE, _GROUPS = ExecRule._meta.db_table, ExecRule.approver_groups.through._meta.db_table
_COLUMNS = ", ".join(str(field.column) for field in ExecRule._meta.concrete_fields)  # the ID is the first
_stored_rules = RowCache(_read_rows, _load_rules)


def _subjects(pairs: Sequence[Sequence[str]]) -> dict[ExecRule.Scope, set[str]]:
    return {
        ExecRule.Scope.INSTALLATION: {""},
        ExecRule.Scope.AGENT: {agent for agent, _ in pairs},
        ExecRule.Scope.SESSION: {session for _, session in pairs},
    }


def merge_rules(rows: Iterable[ExecRule]) -> ExecRules:
    in_order = sorted(rows, key=lambda row: SCOPES.index(ExecRule.Scope(row.scope)))
    values: dict[str, Any] = {}
    set_by: dict[str, str] = {}
    for name in (*STRICTEST_FIRST, *STRICTER_OF):
        explicit = [(getattr(row, name), row) for row in in_order if getattr(row, name) not in ("", None)]
        if not explicit:
            continue
        chosen = _pick_strictest(name, [value for value, _row in explicit])
        values[name] = chosen
        set_by[name] = next((str(row) for value, row in explicit if value == chosen), str(explicit[0][1]))
    groups = tuple(ids for row in in_order if (ids := tuple(sorted(group.pk for group in row.approver_groups.all()))))
    return ExecRules(**values, approver_groups=groups, set_by=set_by)


def _pick_strictest(name: str, values: Sequence[Any]) -> Any:
    if order := STRICTEST_FIRST.get(name):
        # An unknown value, from a later version or a typo, counts as the strictest.
        return min(values, key=order.index) if set(values) <= set(order) else order[0]
    return STRICTER_OF[name](values)


@transaction.atomic
def save_rule(rule: ExecRule, *, by: User, expected_version: int | None) -> ExecRule:
    """Save a rule unless it has changed since it was read; `expected_version` is None for a new one. Not for service accounts."""
    permission = "tools_app.add_execrule" if expected_version is None else "tools_app.change_execrule"
    if by.is_service or not by.has_perm(permission):
        raise Forbidden(_("You don’t have permission to change exec rules."))
    rule.updated_by = by
    if expected_version is None:
        try:
            with transaction.atomic():
                rule.save(force_insert=True)
        except IntegrityError:
            raise Conflict(_("A rule for this scope already exists. Change that rule instead.")) from None
        _record_audit(rule, by, **_explicit_fields(rule))
        return rule
    if not ExecRule.objects.filter(pk=rule.pk, version=expected_version).update(version=F("version") + 1, updated_at=clock.now()):
        raise Conflict(_("Another user changed this rule after you opened it. Review it again."))
    rule.version = expected_version + 1
    rule.save(force_update=True)
    _record_audit(rule, by, **_explicit_fields(rule))
    return rule


@transaction.atomic
def delete_rule(rule: ExecRule, *, by: User, expected_version: int | None) -> None:
    """Delete a rule unless it has changed since it was read. Its content is kept in the audit log. Not for service accounts."""
    if by.is_service or not by.has_perm("tools_app.delete_execrule"):
        raise Forbidden(_("You don’t have permission to change exec rules."))
    stored = ExecRule.objects.select_for_update().filter(pk=rule.pk).first()
    if stored is None or stored.version != expected_version:
        raise Conflict(_("Another user changed this rule after you opened it. Review it again."))
    _record_audit(stored, by, change="deleted", was={**_explicit_fields(stored), "approver_groups": _list_group_names(stored)})
    stored.delete()


def record_groups(rule: ExecRule, *, by: User) -> None:
    """Record the approver groups, which are saved after the rule itself."""
    _record_audit(rule, by, approver_groups=_list_group_names(rule))


def _record_audit(rule: ExecRule, by: User, **fields: Any) -> None:
    audit_log.record(
        "exec_rules.changed", actor=acting.actor_for_user(by), subject=("exec rule", str(rule)), version=rule.version, **fields
    )


def _explicit_fields(rule: ExecRule) -> dict[str, Any]:
    return {name: value for name in (*STRICTEST_FIRST, *STRICTER_OF) if (value := getattr(rule, name)) not in ("", None)}


def _list_group_names(rule: ExecRule) -> list[str]:
    return sorted(rule.approver_groups.values_list("name", flat=True))


@transaction.atomic
def enable_asking(agent: str, by: User) -> ExecRule:
    """Let an agent request approval for commands. Only if no rule sets it yet: an explicit denial must be changed by its owner."""
    rules = rules_for(agent, "")
    if scope := rules.set_by.get("security"):
        raise Conflict(_("The exec rule for %(place)s already decides this. Change that rule instead.") % {"place": scope})
    values = {"security": ExecRule.Security.ALLOWLIST, "ask": ExecRule.Ask.ON_MISS}
    rule = ExecRule.objects.filter(scope=ExecRule.Scope.AGENT, subject=agent).first()
    if rule is None:
        return save_rule(ExecRule(scope=ExecRule.Scope.AGENT, subject=agent, **values), by=by, expected_version=None)
    rule.security, rule.ask = values["security"], rule.ask or values["ask"]
    return save_rule(rule, by=by, expected_version=rule.version)
