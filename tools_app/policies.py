"""Reading and changing the tool policy. A change and its version commit together; agents have no way in here."""

import functools
import re
from collections.abc import Iterable
from typing import Any

import orjson
from django.apps import apps as global_apps
from django.apps.registry import Apps
from django.db import DEFAULT_DB_ALIAS, transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from sessions_app import sql
from tools_app import registry
from tools_app.models import PolicyVersion, ToolPolicy
from tools_app.policy.catalog import PROFILES
from tools_app.policy.matcher import normalise
from tools_app.policy.rules import PolicyRules, RuleRow

SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# A new installation: the default agent may code, any other one can ask for its status.
FIRST_RULES = (RuleRow("global", profile="minimal"), RuleRow("agent", "main", profile="coding"))


def current_rules() -> PolicyRules:
    """The rules of this moment. One query: rows and number come from one version, so they always belong together."""
    # As SQL, since every run begins with it and every tool call asks again: 0.02 ms instead of 0.3.
    newest = sql.rows("SELECT number, snapshot FROM tools_app_policyversion ORDER BY number DESC LIMIT 1")
    return _rules_from(*newest[0]) if newest else PolicyRules(version=0)


@functools.lru_cache(maxsize=4)
def _rules_from(number: int, snapshot: str) -> PolicyRules:
    """Remembered by the stored words themselves, so it cannot be out of date."""
    return PolicyRules.from_snapshot(number, orjson.loads(snapshot))


def rules_at(number: int) -> PolicyRules:
    """The rules of an earlier version, to replay a decision made under it."""
    found = PolicyVersion.objects.filter(number=number).first()
    if found is None:
        raise NotFound(f"there is no policy version {number}")
    return _rules_of(found)


def _rules_of(version: PolicyVersion) -> PolicyRules:
    return PolicyRules.from_snapshot(version.number, version.snapshot)


@transaction.atomic
def save_policy(
    *,
    scope: str,
    subject: str = "",
    profile: str = "",
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    also_allow: Iterable[str] = (),
    changed_by: User | None = None,
    expected_version: int | None = None,
) -> ToolPolicy:
    """Create or replace the policy of one scope and subject. With `expected_version`, only if nothing changed since."""
    rule = checked_rule(scope=scope, subject=subject, profile=profile, allow=allow, deny=deny, also_allow=also_allow)
    number = _next_number(expected_version)
    values = rule.to_json()
    policy, _created = ToolPolicy.objects.update_or_create(
        scope=values.pop("scope"), subject=values.pop("subject"), defaults=values
    )
    _keep_version(number, changed_by)
    return policy


@transaction.atomic
def delete_policy(*, scope: str, subject: str = "", changed_by: User | None = None) -> None:
    """Take a policy away. Without the global one, agents that have no profile are minimal."""
    number = _next_number(expected_version=None)
    deleted, _by_model = ToolPolicy.objects.filter(scope=scope, subject=subject).delete()
    if not deleted:
        raise NotFound(_("there is no such policy any more"))
    _keep_version(number, changed_by)


def checked_rule(
    *, scope: str, subject: str, profile: str, allow: Iterable[str], deny: Iterable[str], also_allow: Iterable[str]
) -> RuleRow:
    """The rule in normal form. InvalidRequest names whatever could not mean what its writer intended."""
    subject, profile = subject.strip().lower(), profile.strip().lower()
    if scope not in ToolPolicy.Scope.values:
        raise InvalidRequest(
            _("scope “%(scope)s” is unknown: use one of %(known)s") % {"scope": scope, "known": ", ".join(ToolPolicy.Scope.values)}
        )
    if scope == ToolPolicy.Scope.GLOBAL and subject:
        raise InvalidRequest(_("the global policy has no subject"))
    if scope == ToolPolicy.Scope.AGENT and not SLUG.fullmatch(subject):
        raise InvalidRequest(
            _("“%(subject)s” is no agent's slug: lower-case letters, digits, - and _, at most 64") % {"subject": subject}
        )
    if profile and profile not in PROFILES:
        raise InvalidRequest(
            _("profile “%(profile)s” is unknown: use one of %(known)s") % {"profile": profile, "known": ", ".join(PROFILES)}
        )
    lists = (tuple(dict.fromkeys(_checked_entry(entry) for entry in entries)) for entries in (allow, deny, also_allow))
    return RuleRow(scope, subject, profile, *lists)


def _checked_entry(entry: str) -> str:
    name = normalise(entry)
    if not name:
        raise InvalidRequest(_("an entry is blank"))
    if "*" in name[:-1]:
        raise InvalidRequest(_("entry “%(entry)s”: `*` may only stand at the end") % {"entry": entry})
    if not name.endswith("*") and not registry.installed().knows(name):
        raise InvalidRequest(
            _("entry “%(entry)s” is no tool, group or plugin; a group is written `group:fs`, a family of tools `sessions_*`")
            % {"entry": entry}
        )
    return name


def _next_number(expected_version: int | None) -> int:
    """The number of the version to come. Holds every other change off until this transaction ends."""
    # The first version is the lock, because it is there for good; SQLite's IMMEDIATE transactions need none.
    PolicyVersion.objects.select_for_update().order_by("number").first()
    number = current_rules().version
    if expected_version is not None and expected_version != number:
        raise Conflict(
            _("the policy has changed: it is at version %(now)d, not %(seen)d. Look at it again.")
            % {"now": number, "seen": expected_version}
        )
    return number + 1


def _keep_version(number: int, changed_by: User | None) -> None:
    rows = tuple(policy.as_rule() for policy in ToolPolicy.objects.order_by("scope", "subject"))
    snapshot = PolicyRules(number, rows).snapshot()
    PolicyVersion.objects.create(number=number, created_at=clock.now(), changed_by=changed_by, snapshot=snapshot)


def install_policies(*, apps: Apps = global_apps, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Receiver of post_migrate: version 1 where there is none. Never touches what an operator has changed."""
    try:
        policy, version = apps.get_model("tools_app", "ToolPolicy"), apps.get_model("tools_app", "PolicyVersion")
    except LookupError:  # migrated to a state without these tables
        return
    with transaction.atomic(using=using):
        if version.objects.using(using).exists():
            return
        policy.objects.using(using).bulk_create([policy(**rule.to_json()) for rule in FIRST_RULES])
        snapshot = PolicyRules(1, FIRST_RULES).snapshot()
        version.objects.using(using).create(number=1, created_at=clock.now(), snapshot=snapshot)
