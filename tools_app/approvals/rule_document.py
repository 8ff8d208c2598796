"""The exec rules as one document, in the form that OpenClaw's clients read and write.

    {"version": 1, "defaults": {"security", "ask", "askFallback"},
     "agents": {"main" | "*": {the same, "allowlist": [{"pattern": "/usr/bin/git"}]}}}

It covers levels and allow lists that operators wrote. What approvers granted is not part of it and is not touched.
"""

import hashlib
from typing import Any

import orjson
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F

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
        said = {name: value for name, field in FIELD_BY_WIRE_NAME.items() if (value := getattr(rule, field))}
        if rule.scope == ExecRule.Scope.INSTALLATION:
            document["defaults"] = said
        else:
            document["agents"][rule.subject] = said
    for grant in _operator_grants().order_by("id"):
        place = document["agents"].setdefault(grant.subject or ALL_AGENTS, {})
        place.setdefault("allowlist", []).extend({"pattern": entry["pattern"]} for entry in grant.entries)
    return document


def hash_document(document: dict[str, Any]) -> str:
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


@transaction.atomic
def replace_rules(document: dict[str, Any], *, base_hash: str, by: User) -> None:
    """Make the rows say what the document says; nothing is changed if any of it is wrong."""
    if by.is_service or not by.has_perms(["tools_app.change_execrule", "tools_app.add_grant", "tools_app.change_grant"]):
        raise Forbidden("only operators change exec rules")
    list(ExecRule.objects.select_for_update().order_by("pk"))  # two who change them at once come one after the other
    if hash_document(current_document()) != base_hash:
        raise Conflict("the exec rules have changed since; read them again")
    if document.get("version") != 1:
        raise InvalidRequest("`version` must be 1")
    if unknown := set(document) - {"version", "defaults", "agents", "socket"}:
        raise InvalidRequest(f"the document has an unknown part: {sorted(unknown)[0]!r}")
    agents = _require_object(document.get("agents", {}), "agents")
    _save_rule(ExecRule.Scope.INSTALLATION, "", _require_object(document.get("defaults", {}), "defaults"), by)
    ExecRule.objects.filter(scope=ExecRule.Scope.AGENT).exclude(subject__in=agents).update(
        security="", ask="", ask_fallback="", version=F("version") + 1, updated_by=by
    )
    wanted: set[tuple[str, str]] = set()
    for agent, said in agents.items():
        said = dict(_require_object(said, f"agents.{agent}"))
        wanted |= {(agent, pattern) for pattern in _parse_patterns(said.pop("allowlist", []), agent)}
        if agent != ALL_AGENTS:
            _save_rule(ExecRule.Scope.AGENT, agent, said, by)
        elif said:
            raise InvalidRequest("what is for all agents stands in `defaults`; `agents.*` has an allowlist only")
    _sync_allowlists(wanted, by)
    # The lists are recorded as grants.
    levels = {agent: {name: value for name, value in said.items() if name in FIELD_BY_WIRE_NAME} for agent, said in agents.items()}
    said_by_all = document.get("defaults", {})
    subject = ("exec rules", "document")
    audit_log.record("exec_rules.changed", actor=acting.actor_for_user(by), subject=subject, defaults=said_by_all, agents=levels)


def _save_rule(scope: str, subject: str, said: dict[str, Any], by: User) -> None:
    if unknown := set(said) - set(FIELD_BY_WIRE_NAME):
        raise InvalidRequest(
            f"an exec rule has no {sorted(unknown)[0]!r}; it has {', '.join(FIELD_BY_WIRE_NAME)} and, for agents, allowlist"
        )
    rule, made = ExecRule.objects.get_or_create(scope=scope, subject=subject)
    for name, field in FIELD_BY_WIRE_NAME.items():
        setattr(rule, field, said.get(name) or "")
    rule.updated_by = by
    rule.version += not made
    try:
        rule.full_clean(validate_unique=False, validate_constraints=False)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error.messages)) from error
    rule.save()


def _parse_patterns(allowlist: Any, agent: str) -> list[str]:
    if not isinstance(allowlist, list):
        raise InvalidRequest(f"agents.{agent}.allowlist must be a list")
    found = [entry if isinstance(entry, str) else _require_object(entry, "an entry").get("pattern") for entry in allowlist]
    patterns = [pattern.strip() for pattern in found if isinstance(pattern, str) and pattern.strip()]
    if len(patterns) < len(found):
        raise InvalidRequest(f"agents.{agent}.allowlist has an entry without a pattern")
    if faults := [fault for pattern in patterns if (fault := grants.find_pattern_error(pattern))]:
        raise InvalidRequest(faults[0])
    return patterns


def _sync_allowlists(wanted: set[tuple[str, str]], by: User) -> None:
    kept: set[tuple[str, str]] = set()
    for grant in _operator_grants():
        place = {(grant.subject or ALL_AGENTS, entry["pattern"]) for entry in grant.entries}
        if place <= wanted:
            kept |= place
        else:
            grants.revoke_grant(grant.pk, by=by)
    for agent, pattern in sorted(wanted - kept):
        scope, subject = (Grant.Scope.INSTALLATION, "") if agent == ALL_AGENTS else (Grant.Scope.AGENT, agent)
        grants.add_manually([pattern], by=by, scope=scope, subject=subject)


def _operator_grants() -> Any:
    """Living entries that an operator wrote: they came from no question and have neither an end nor a number of uses."""
    return Grant.objects.filter(
        approval__isnull=True, revoked_at__isnull=True, expires_at__isnull=True, uses_left__isnull=True, line=""
    ).filter(scope__in=[Grant.Scope.INSTALLATION, Grant.Scope.AGENT])


def _require_object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequest(f"`{name}` must be an object")
    return value
