"""The exec rules as one document, in the form that OpenClaw's clients read and write.

    {"version": 1, "defaults": {"security", "ask", "askFallback"},
     "agents": {"main" | "*": {the same, "allowlist": [{"pattern": "/usr/bin/git"}]}}}

It covers exec rules and allowlists written by operators. Grants given by approvers are not part of it and stay unchanged.
"""

import hashlib
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest
from tools_app.approvals import grants
from tools_app.models import ExecRule, Grant

FIELD_BY_WIRE_NAME = {"security": "security", "ask": "ask", "askFallback": "ask_fallback"}
ALL_AGENTS = "*"


def current_document() -> dict[str, Any]:
    document: dict[str, Any] = {"version": 1, "defaults": {}, "agents": {}}
    for rule in ExecRule.objects.exclude(scope=ExecRule.Scope.SESSION).order_by("scope", "subject"):
        values = {name: value for name, field in FIELD_BY_WIRE_NAME.items() if (value := getattr(rule, field))}
        if rule.scope == ExecRule.Scope.INSTALLATION:
            document["defaults"] = values
        else:
            document["agents"][rule.subject] = values
    for grant in _operator_grants().order_by("id"):
        entry = document["agents"].setdefault(grant.subject or ALL_AGENTS, {})
        entry.setdefault("allowlist", []).extend({"pattern": each["pattern"]} for each in grant.entries)
    return document


def hash_document(document: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


@transaction.atomic
def replace_rules(document: dict[str, Any], *, base_hash: str, by: User) -> None:
    """Replace the stored rules with the document; if any part is invalid, nothing changes."""
    if by.is_service or not by.has_perms(["tools_app.change_execrule", "tools_app.add_grant", "tools_app.change_grant"]):
        raise Forbidden(_("You don’t have permission to change exec rules."))
    list(ExecRule.objects.select_for_update().order_by("pk"))  # concurrent changes run one after the other
    if hash_document(current_document()) != base_hash:
        raise Conflict(_("The exec rules have changed. Read them again."))
    if document.get("version") != 1:
        raise InvalidRequest("`version` must be 1")
    if unknown := set(document) - {"version", "defaults", "agents", "socket"}:
        raise InvalidRequest(f"unknown field in the document: {sorted(unknown)[0]!r}")
    agents = _require_object(document.get("agents", {}), "agents")
    _save_rule(ExecRule.Scope.INSTALLATION, "", _require_object(document.get("defaults", {}), "defaults"), by)
    ExecRule.objects.filter(scope=ExecRule.Scope.AGENT).exclude(subject__in=agents).update(
        security="", ask="", ask_fallback="", version=F("version") + 1, updated_by=by
    )
    wanted: set[tuple[str, str]] = set()
    for agent, values in agents.items():
        values = dict(_require_object(values, f"agents.{agent}"))
        wanted |= {(agent, pattern) for pattern in _parse_patterns(values.pop("allowlist", []), agent)}
        if agent != ALL_AGENTS:
            _save_rule(ExecRule.Scope.AGENT, agent, values, by)
        elif values:
            raise InvalidRequest("`agents.*` can only have an allowlist; put settings for all agents in `defaults`")
    _sync_allowlists(wanted, by)
    # Allowlists are recorded as grants.
    levels = {agent: {name: value for name, value in each.items() if name in FIELD_BY_WIRE_NAME} for agent, each in agents.items()}
    defaults = document.get("defaults", {})
    subject = ("exec rules", "document")
    audit_log.record("exec_rules.changed", actor=acting.actor_for_user(by), subject=subject, defaults=defaults, agents=levels)


def _save_rule(scope: str, subject: str, values: dict[str, Any], by: User) -> None:
    if unknown := set(values) - set(FIELD_BY_WIRE_NAME):
        raise InvalidRequest(
            f"unknown exec rule field {sorted(unknown)[0]!r}; use {', '.join(FIELD_BY_WIRE_NAME)} and, for agents, allowlist"
        )
    rule, created = ExecRule.objects.get_or_create(scope=scope, subject=subject)
    for name, field in FIELD_BY_WIRE_NAME.items():
        setattr(rule, field, values.get(name) or "")
    rule.updated_by = by
    rule.version += not created
    try:
        rule.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error.messages)) from error
    rule.save()


def _parse_patterns(allowlist: Any, agent: str) -> list[str]:
    if not isinstance(allowlist, list):
        raise InvalidRequest(f"agents.{agent}.allowlist must be a list")
    values = [entry if isinstance(entry, str) else _require_object(entry, "an entry").get("pattern") for entry in allowlist]
    patterns = [pattern.strip() for pattern in values if isinstance(pattern, str) and pattern.strip()]
    if len(patterns) < len(values):
        raise InvalidRequest(f"agents.{agent}.allowlist has an entry without a pattern")
    if errors := [error for pattern in patterns if (error := grants.find_pattern_error(pattern))]:
        raise InvalidRequest(errors[0])
    return patterns


def _sync_allowlists(wanted: set[tuple[str, str]], by: User) -> None:
    unchanged: set[tuple[str, str]] = set()
    for grant in _operator_grants():
        current = {(grant.subject or ALL_AGENTS, entry["pattern"]) for entry in grant.entries}
        if current <= wanted:
            unchanged |= current
        else:
            grants.revoke_grant(grant.pk, by=by)
    for agent, pattern in sorted(wanted - unchanged):
        scope, subject = (Grant.Scope.INSTALLATION, "") if agent == ALL_AGENTS else (Grant.Scope.AGENT, agent)
        grants.add_manually([pattern], by=by, scope=scope, subject=subject)


def _operator_grants() -> Any:
    """Active entries written by operators: without a source request, an expiration or a use limit."""
    return Grant.objects.filter(
        approval__isnull=True, revoked_at__isnull=True, expires_at__isnull=True, uses_left__isnull=True, line=""
    ).filter(scope__in=[Grant.Scope.INSTALLATION, Grant.Scope.AGENT])


def _require_object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"`{name}` must be an object")
    return value
