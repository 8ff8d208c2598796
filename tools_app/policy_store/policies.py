"""Read and change the tool policy. A change and its version commit together; agents have no access to this module."""

import functools
from collections.abc import Iterable
from typing import Any

import orjson
from django.apps import apps as global_apps
from django.apps.registry import Apps
from django.db import DEFAULT_DB_ALIAS, transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from clawsite.infra.reason_texts import translate_reason
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.expectations import BrokenExpectation
from tools_app.policy.rules import SCOPE_FIELDS, PolicyRules, RuleRow
from tools_app.policy_store.checks import validate_row
from tools_app.policy_store.vocabulary import find_broken_among
from tools_app.sources.plugins import requires_plugins

MAX_CHANGE_LENGTH = 300  # characters, as in the column
# On a new server, the default agent gets the coding profile; other agents can only read their status.
DEFAULT_RULES = (RuleRow("global", profile="minimal"), RuleRow("agent", "main", profile="coding"))


def current_rules() -> PolicyRules:
    """Return the current rules. The rules and the version number come from the same database row, so they always match."""
    # Raw SQL, because every run and every tool call does this: 0.02 ms instead of 0.3.
    newest = sql.fetch_rows("SELECT number, snapshot FROM tools_app_policyversion ORDER BY number DESC LIMIT 1")
    return _parse_rules(*newest[0]) if newest else PolicyRules(version=0)


@functools.lru_cache(maxsize=4)
def _parse_rules(number: int, snapshot: str) -> PolicyRules:
    """Parse a snapshot. The cache key is the stored text itself, so the result is never stale."""
    return PolicyRules.from_snapshot(number, orjson.loads(snapshot))


def rules_at(number: int) -> PolicyRules:
    """Return the rules of an earlier version, to replay a decision made under it."""
    version = PolicyVersion.objects.filter(number=number).first()
    if version is None:
        raise NotFound(_("Policy version %(number)d does not exist.") % {"number": number})
    return PolicyRules.from_snapshot(version.number, version.snapshot)


@requires_plugins
def save_policy(*, changed_by: User | None = None, expected_version: int | None = None, **fields: Any) -> ToolPolicy:
    """Create or replace the rule of one scope (fields of `RuleRow`). With `expected_version`, only if nothing changed since."""
    rule = validate_row(**fields)
    number = reserve_version_number(expected_version)
    values = rule.to_json()
    scope = {name: values.pop(name) for name in SCOPE_FIELDS}
    policy, _created = ToolPolicy.objects.update_or_create(**scope, defaults=values)
    _publish_version(number, changed_by, f"saved {rule.key}")
    return policy


@requires_plugins
def delete_policy(*, changed_by: User | None = None, expected_version: int | None = None, **scope: Any) -> None:
    """Delete a rule. Without the global rule, agents that have no tool profile get the minimal one."""
    number = reserve_version_number(expected_version)
    row = RuleRow(**scope)
    deleted, _by_model = ToolPolicy.objects.filter(**{name: getattr(row, name) for name in SCOPE_FIELDS}).delete()
    if not deleted:
        raise NotFound(_("This policy rule no longer exists."))
    _publish_version(number, changed_by, f"deleted {row.key}")


def restore_version(number: int, *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Publish the rules of an earlier version as a new version and return its number. The versions in between remain.

    Tests are not restored: going back must not remove tests that were added since.
    """
    return _replace_all(rules_at(number).rows, f"restored version {number}", changed_by, expected_version)


def replace_policies(rows: Iterable[RuleRow], *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Replace all rules, as when importing a file, and return the number of the new version. Each rule is validated."""
    checked = [validate_row(**row.to_json()) for row in rows]
    if duplicates := {row.key for row in checked if sum(other.scope_values == row.scope_values for other in checked) > 1}:
        raise InvalidRequest(_("Duplicate entries: %(keys)s.") % {"keys": ", ".join(sorted(duplicates))})
    return _replace_all(checked, "imported", changed_by, expected_version)


@requires_plugins
def _replace_all(rows: Iterable[RuleRow], change: str, changed_by: User | None, expected_version: int | None) -> int:
    number = reserve_version_number(expected_version)
    ToolPolicy.objects.all().delete()
    ToolPolicy.objects.bulk_create([ToolPolicy(**row.to_json()) for row in rows])
    _publish_version(number, changed_by, change)
    return number


def find_broken_tests(rules: PolicyRules) -> list[BrokenExpectation]:
    """Return the policy tests that fail under these rules."""
    return find_broken_among((test.as_expectation() for test in PolicyTest.objects.all()), rules)


def lock_changes() -> None:
    """Lock policies, policy tests and tool sources against other changes until the caller's transaction ends."""
    # Locks the first version, because it is never deleted; SQLite's IMMEDIATE transactions need no lock.
    PolicyVersion.objects.select_for_update().order_by("number").first()


def reserve_version_number(expected_version: int | None) -> int:
    """Return the number of the next version. Blocks other changes until the caller's transaction ends."""
    lock_changes()
    number = current_rules().version
    if expected_version is not None and expected_version != number:
        raise Conflict(
            _("The policy has changed: it is at version %(now)d, not %(seen)d. Review it again.")
            % {"now": number, "seen": expected_version}
        )
    return number + 1


def _publish_version(number: int, changed_by: User | None, change: str) -> None:
    """Record the rules as a version. If a policy test fails, raise InvalidRequest so that the change is rolled back."""
    if failures := find_broken_tests(_read_stored_rules(number)):
        raise InvalidRequest(" ".join(describe_broken_test(failure) for failure in failures))
    record_version(number, changed_by, change)


def record_version(number: int, changed_by: User | None, change: str) -> None:
    """Record the current rules and tests as a version. Runs no tests: the caller did that, or changed no rule."""
    rules = _read_stored_rules(number)
    PolicyVersion.objects.create(
        number=number,
        created_at=clock.now(),
        changed_by=changed_by,
        change=change[:MAX_CHANGE_LENGTH],
        snapshot=rules.snapshot(),
        tests=[test.as_expectation().to_compact_json() for test in PolicyTest.objects.all()],
    )
    author = acting.actor_for_user(changed_by) if changed_by else None
    audit_log.record("policy.published", actor=author, subject=("policy version", number), change=change, rules=len(rules.rows))


def _read_stored_rules(number: int) -> PolicyRules:
    return PolicyRules(number, tuple(policy.as_rule() for policy in ToolPolicy.objects.order_by(*SCOPE_FIELDS)))


def describe_broken_test(failure: BrokenExpectation) -> str:
    context = ", ".join(filter(None, (failure.provider, failure.where)))
    agent = failure.agent + (f" ({context})" if context else "")
    facts = {"test": failure.expectation.name, "agent": agent, "tool": failure.tool, "why": translate_reason(failure.why)}
    return _("Policy test “%(test)s” would fail: %(tool)s for %(agent)s is %(why)s.") % facts


def install_policies(*, apps: Apps = global_apps, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Create version 1 after migrating, if there is no version yet. Never changes what an operator has set."""
    try:
        policy, version = apps.get_model("tools_app", "ToolPolicy"), apps.get_model("tools_app", "PolicyVersion")
    except LookupError:  # migrated to a state without these tables
        return
    with transaction.atomic(using=using):
        if version.objects.using(using).exists():
            return
        policy.objects.using(using).bulk_create([policy(**rule.to_compact_json()) for rule in DEFAULT_RULES])
        snapshot = PolicyRules(1, DEFAULT_RULES).snapshot()
        version.objects.using(using).create(number=1, created_at=clock.now(), snapshot=snapshot)
