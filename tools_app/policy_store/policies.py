"""Reading and changing the tool policy. A change and its version commit together; agents have no way in here."""

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
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.expectations import BrokenExpectation
from tools_app.policy.rules import SCOPE_FIELDS, PolicyRules, RuleRow
from tools_app.policy_store.checks import validate_row
from tools_app.policy_store.vocabulary import find_broken_among
from tools_app.sources.plugins import requires_plugins

MAX_CHANGE_LENGTH = 300  # characters, as the column has
# A new installation: the default agent may code, any other one can ask for its status.
DEFAULT_RULES = (RuleRow("global", profile="minimal"), RuleRow("agent", "main", profile="coding"))


def current_rules() -> PolicyRules:
    """The rules of this moment. One query: rows and number come from one version, so they always belong together."""
    # As SQL, since every run begins with it and every tool call asks again: 0.02 ms instead of 0.3.
    newest = sql.fetch_rows("SELECT number, snapshot FROM tools_app_policyversion ORDER BY number DESC LIMIT 1")
    return _parse_rules(*newest[0]) if newest else PolicyRules(version=0)


@functools.lru_cache(maxsize=4)
def _parse_rules(number: int, snapshot: str) -> PolicyRules:
    """Remembered by the stored words themselves, so it cannot be out of date."""
    return PolicyRules.from_snapshot(number, orjson.loads(snapshot))


def rules_at(number: int) -> PolicyRules:
    """The rules of an earlier version, to replay a decision made under it."""
    found = PolicyVersion.objects.filter(number=number).first()
    if found is None:
        raise NotFound(f"there is no policy version {number}")
    return PolicyRules.from_snapshot(found.number, found.snapshot)


@requires_plugins
def save_policy(*, changed_by: User | None = None, expected_version: int | None = None, **fields: Any) -> ToolPolicy:
    """Create or replace the policy of one place (fields of `RuleRow`). With `expected_version`, only if nothing changed since."""
    rule = validate_row(**fields)
    number = reserve_version_number(expected_version)
    values = rule.to_json()
    place = {name: values.pop(name) for name in SCOPE_FIELDS}
    policy, _created = ToolPolicy.objects.update_or_create(**place, defaults=values)
    _publish_version(number, changed_by, f"saved {rule.key}")
    return policy


@requires_plugins
def delete_policy(*, changed_by: User | None = None, expected_version: int | None = None, **place: Any) -> None:
    """Take a policy away. Without the global one, agents that have no profile are minimal."""
    number = reserve_version_number(expected_version)
    row = RuleRow(**place)
    deleted, _by_model = ToolPolicy.objects.filter(**{name: getattr(row, name) for name in SCOPE_FIELDS}).delete()
    if not deleted:
        raise NotFound(_("This policy rule no longer exists."))
    _publish_version(number, changed_by, f"deleted {row.key}")


def restore_version(number: int, *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """Make the rows of an earlier version the rows of a new one; -> its number. What was in between stays in the history.

    Tests stay as they are: a step back must not take away what somebody has since made sure of.
    """
    return _replace_all(rules_at(number).rows, f"restored version {number}", changed_by, expected_version)


def replace_policies(rows: Iterable[RuleRow], *, changed_by: User | None = None, expected_version: int | None = None) -> int:
    """All rows at once, as from a file; -> the number of the new version. Each row is checked as if it were typed."""
    checked = [validate_row(**row.to_json()) for row in rows]
    if twice := {row.key for row in checked if sum(other.place == row.place for other in checked) > 1}:
        raise InvalidRequest(_("Duplicate entries: %(keys)s.") % {"keys": ", ".join(sorted(twice))})
    return _replace_all(checked, "imported", changed_by, expected_version)


@requires_plugins
def _replace_all(rows: Iterable[RuleRow], change: str, changed_by: User | None, expected_version: int | None) -> int:
    number = reserve_version_number(expected_version)
    ToolPolicy.objects.all().delete()
    ToolPolicy.objects.bulk_create([ToolPolicy(**row.to_json()) for row in rows])
    _publish_version(number, changed_by, change)
    return number


def find_broken_tests(rules: PolicyRules) -> list[BrokenExpectation]:
    """The policy tests that do not hold under these rules."""
    return find_broken_among((test.as_expectation() for test in PolicyTest.objects.all()), rules)


def lock_changes() -> None:
    """Nobody else changes policies, their tests, or where tools come from, until the caller's transaction ends."""
    # The first version is the lock, because it is there for good; SQLite's IMMEDIATE transactions need none.
    PolicyVersion.objects.select_for_update().order_by("number").first()


def reserve_version_number(expected_version: int | None) -> int:
    """The number of the version to come. Holds every other change off until the caller's transaction ends."""
    lock_changes()
    number = current_rules().version
    if expected_version is not None and expected_version != number:
        raise Conflict(
            _("The policy has changed: it is at version %(now)d, not %(seen)d. Review it again.")
            % {"now": number, "seen": expected_version}
        )
    return number + 1


def _publish_version(number: int, changed_by: User | None, change: str) -> None:
    """Keep the rows as a version, unless a policy test breaks: then nothing has happened."""
    if faults := find_broken_tests(_read_stored_rules(number)):
        raise InvalidRequest(" ".join(describe_broken_test(fault) for fault in faults))
    record_version(number, changed_by, change)


def record_version(number: int, changed_by: User | None, change: str) -> None:
    """Keep rows and tests as they stand now. Nothing is judged here: whoever calls has done so, or has changed no row."""
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


def describe_broken_test(fault: BrokenExpectation) -> str:
    with_what = ", ".join(filter(None, (fault.provider, fault.where)))
    who = fault.agent + (f" ({with_what})" if with_what else "")
    facts = {"test": fault.expectation.name, "agent": who, "tool": fault.tool, "why": fault.why}
    return _("Policy test “%(test)s” would fail: %(tool)s for %(agent)s is %(why)s.") % facts


def install_policies(*, apps: Apps = global_apps, using: str = DEFAULT_DB_ALIAS, **_: Any) -> None:
    """Receiver of post_migrate: version 1 where there is none. Never touches what an operator has changed."""
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
