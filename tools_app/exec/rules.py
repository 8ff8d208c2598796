"""What the installation, the agent and the session say about commands, merged: the strictest wins, field by field.

A field that nobody has set has a safe value, and commands are refused where nobody says otherwise.
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
from sessions_app.runs.lifecycle import SENT_BY
from sessions_app.runs.types import ClaimedRun
from tools_app.exec.gate.types import Ask, Security
from tools_app.models import ExecRule

SCOPES = (ExecRule.Scope.INSTALLATION, ExecRule.Scope.AGENT, ExecRule.Scope.SESSION)

# The strictest first. A boolean or a number is merged by the function beside it.
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
    """The rules for one agent in one session. `said_by` names, for each field that somebody set, the place that decided it."""

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
    approver_groups: tuple[tuple[int, ...], ...] = ()  # ids: a name can be given to another group. Who approves is in one of each
    said_by: dict[str, str] = field(default_factory=dict)


def rules_for_run(claimed: ClaimedRun) -> ExecRules:
    """The rules for a run: also those of the agents and sessions that its message came through.

    What one of them may not do, it may not have done by another.
    """
    return rules_for(claimed.agent, str(claimed.session_id), forwarded_through(claimed.options))


def forwarded_through(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Agent and session of each that a run's message came through, the first one first."""
    return tuple((agent, session) for agent, session in options.get(SENT_BY, {}).get("through", []))


def rules_for(agent: str, session_id: str, through: Iterable[Sequence[str]] = ()) -> ExecRules:
    """The rules of this moment for an agent in a session, and `through` others: pairs of agent and session."""
    return rules_for_many([[(agent, session_id), *through]])[0]


def rules_for_many(places: Sequence[Sequence[Sequence[str]]]) -> list[ExecRules]:
    """The same for many at once: for each, the pairs of agent and session that it is bound by."""
    named = sorted({"", *(name for pairs in places for pair in pairs for name in pair)})
    # As SQL, since every run begins with it and most installations have a rule or two: 0.02 ms instead of 0.4.
    marks = ", ".join(["%s"] * len(named))
    pks = [pk for (pk,) in sql.fetch_rows(f"SELECT id FROM tools_app_execrule WHERE subject IN ({marks})", named)]
    found = list(ExecRule.objects.filter(pk__in=pks).prefetch_related("approver_groups")) if pks else []
    return [merge_rules(row for row in found if row.subject in _subjects(pairs)[ExecRule.Scope(row.scope)]) for pairs in places]


def _subjects(pairs: Sequence[Sequence[str]]) -> dict[ExecRule.Scope, set[str]]:
    return {
        ExecRule.Scope.INSTALLATION: {""},
        ExecRule.Scope.AGENT: {agent for agent, _ in pairs},
        ExecRule.Scope.SESSION: {session for _, session in pairs},
    }


def merge_rules(rows: Iterable[ExecRule]) -> ExecRules:
    in_order = sorted(rows, key=lambda row: SCOPES.index(ExecRule.Scope(row.scope)))
    values: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for name in (*STRICTEST_FIRST, *STRICTER_OF):
        said = [(getattr(row, name), row) for row in in_order if getattr(row, name) not in ("", None)]
        if not said:
            continue
        chosen = _pick_strictest(name, [value for value, _row in said])
        values[name] = chosen
        said_by[name] = next((str(row) for value, row in said if value == chosen), str(said[0][1]))
    groups = tuple(ids for row in in_order if (ids := tuple(sorted(group.pk for group in row.approver_groups.all()))))
    return ExecRules(**values, approver_groups=groups, said_by=said_by)


def _pick_strictest(name: str, values: Sequence[Any]) -> Any:
    if order := STRICTEST_FIRST.get(name):
        # A word that is not known, from a later version or a slip, counts as the strictest.
        return min(values, key=order.index) if set(values) <= set(order) else order[0]
    return STRICTER_OF[name](values)


@transaction.atomic
def save_rule(rule: ExecRule, *, by: User, expected_version: int | None) -> ExecRule:
    """Store a rule if nobody has changed it since it was read. `expected_version` is None for a new one. Only people do this."""
    right = "tools_app.add_execrule" if expected_version is None else "tools_app.change_execrule"
    if by.is_service or not by.has_perm(right):
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
    """Take a rule away if nobody has changed it since it was read. Only people do this; what it said is kept in the audit log."""
    if by.is_service or not by.has_perm("tools_app.delete_execrule"):
        raise Forbidden(_("You don’t have permission to change exec rules."))
    held = ExecRule.objects.select_for_update().filter(pk=rule.pk).first()
    if held is None or held.version != expected_version:
        raise Conflict(_("Another user changed this rule after you opened it. Review it again."))
    _record_audit(held, by, change="deleted", was={**_explicit_fields(held), "approver_groups": _list_group_names(held)})
    held.delete()


def record_groups(rule: ExecRule, *, by: User) -> None:
    """Who may approve is stored after the rule itself, and recorded then."""
    _record_audit(rule, by, approver_groups=_list_group_names(rule))


def _record_audit(rule: ExecRule, by: User, **said: Any) -> None:
    audit_log.record(
        "exec_rules.changed", actor=acting.actor_for_user(by), subject=("exec rule", str(rule)), version=rule.version, **said
    )


def _explicit_fields(rule: ExecRule) -> dict[str, Any]:
    return {name: value for name in (*STRICTEST_FIRST, *STRICTER_OF) if (value := getattr(rule, name)) not in ("", None)}


def _list_group_names(rule: ExecRule) -> list[str]:
    return sorted(rule.approver_groups.values_list("name", flat=True))


@transaction.atomic
def enable_asking(agent: str, by: User) -> ExecRule:
    """Let an agent ask people about commands. Only where nobody has decided: what somebody refused is theirs to open again."""
    rules = rules_for(agent, "")
    if place := rules.said_by.get("security"):
        raise Conflict(_("The exec rule for %(place)s already decides this. Change that rule instead.") % {"place": place})
    asking = {"security": ExecRule.Security.ALLOWLIST, "ask": ExecRule.Ask.ON_MISS}
    rule = ExecRule.objects.filter(scope=ExecRule.Scope.AGENT, subject=agent).first()
    if rule is None:
        return save_rule(ExecRule(scope=ExecRule.Scope.AGENT, subject=agent, **asking), by=by, expected_version=None)
    rule.security, rule.ask = asking["security"], rule.ask or asking["ask"]
    return save_rule(rule, by=by, expected_version=rule.version)
