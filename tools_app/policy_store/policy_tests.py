"""Save and delete policy tests, and check all of them against the current rules.

A failing test can't be saved: it would block every later policy change, including unrelated ones. Fix the policy first; the
test then protects it.
"""

from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from tools_app.models import PolicyTest
from tools_app.policy.expectations import BrokenExpectation, Expectation
from tools_app.policy.layers import sender_key
from tools_app.policy.matcher import normalize_entry
from tools_app.policy_store.checks import PROVIDER_PATTERN, SLUG_PATTERN, PolicyFinding
from tools_app.policy_store.policies import (
    current_rules,
    describe_broken_test,
    find_broken_tests,
    record_version,
    reserve_version_number,
)
from tools_app.policy_store.vocabulary import find_absent_among, find_broken_among, is_known_tool
from tools_app.sources.plugins import requires_plugins


@dataclass(frozen=True, slots=True)
class CheckedTest:
    """`is_idle`: the test expects a tool to be allowed that its plugin or server doesn't currently provide, so it has no result."""

    test: PolicyTest
    failure: BrokenExpectation | None
    is_idle: bool = False

    @property
    def state(self) -> str:
        return "broken" if self.failure else "idle" if self.is_idle else "holds"

    @property
    def message(self) -> str:
        return describe_broken_test(self.failure) if self.failure else ""


def check_all_tests() -> list[CheckedTest]:
    """Check every test against the current rules."""
    failures = {failure.expectation.name: failure for failure in find_broken_tests(current_rules())}
    tests = list(PolicyTest.objects.all())
    absent = find_absent_among(test.tool for test in tests)
    return [
        CheckedTest(test, failures.get(test.name), test.tool in absent and test.expected == PolicyTest.Expected.ALLOWED)
        for test in tests
    ]


@requires_plugins
def save_test(
    pk: int | None = None, *, changed_by: User | None = None, expected_version: int | None = None, **fields: Any
) -> PolicyTest:
    """Create or replace a test and record a policy version. Raise InvalidRequest if the test is invalid or fails.

    Other failing tests are ignored: saving this one may be part of the fix.
    """
    expectation = normalize_test(**fields)
    if errors := list(find_test_errors(expectation)):
        raise InvalidRequest(" ".join(error.message for error in errors))
    number = reserve_version_number(expected_version)
    test = PolicyTest.objects.filter(pk=pk).first() if pk else PolicyTest()
    if test is None:
        raise NotFound(_("This test no longer exists."))
    for name in (*Expectation.TEXT_FIELDS, *Expectation.FLAG_FIELDS):
        setattr(test, name, getattr(expectation, name))
    try:
        with transaction.atomic():
            test.save()
    except IntegrityError:
        raise Conflict(_("A test named “%s” already exists.") % expectation.name) from None
    if message := describe_failure(expectation):
        raise InvalidRequest(message)
    record_version(number, changed_by, f"saved test “{test.name}”")
    return test


def describe_failure(test: Expectation) -> str:
    """Describe how the test fails under the current rules; empty if it passes."""
    failures = find_broken_among([test], current_rules())
    message = _("This test fails now, so it would block every change. Fix the policy first: %s")
    return message % describe_broken_test(failures[0]) if failures else ""


@transaction.atomic
def delete_test(pk: int, *, changed_by: User | None = None, expected_version: int | None = None) -> None:
    """Delete a test and record a policy version."""
    number = reserve_version_number(expected_version)
    test = PolicyTest.objects.filter(pk=pk).first()
    if test is None:
        raise NotFound(_("This test no longer exists."))
    test.delete()
    record_version(number, changed_by, f"deleted test “{test.name}”")


def normalize_test(**fields: Any) -> Expectation:
    """Lowercase and strip names, as for rules."""
    values: dict[str, Any] = {name: str(fields.get(name, "")).strip() for name in Expectation.TEXT_FIELDS}
    values |= {name: values[name].lower() for name in ("expected", "agent", "provider", "channel")}
    values |= {"tool": normalize_entry(values["tool"]), "sender": sender_key(values["sender"])}
    return Expectation(**values | {name: bool(fields.get(name, False)) for name in Expectation.FLAG_FIELDS})


def find_test_errors(test: Expectation) -> list[PolicyFinding]:
    """Return the errors in a test's fields; doesn't check whether the test passes."""
    errors = []
    if not test.name:
        errors.append(PolicyFinding("name", _("Enter a name, for example: support-bot never gets exec.")))
    if test.expected not in PolicyTest.Expected.values:
        errors.append(PolicyFinding("expected", _("Choose the expected result.")))
    if not test.tool or "*" in test.tool[:-1] or not is_known_tool(test.tool):
        errors.append(PolicyFinding("tool", _("“%s” is not a tool, group, plugin or pattern that matches one.") % test.tool))
    if test.agent and not SLUG_PATTERN.fullmatch(test.agent):
        errors.append(PolicyFinding("agent", _("“%s” is not a valid agent ID.") % test.agent))
    if test.provider and not PROVIDER_PATTERN.fullmatch(test.provider):
        errors.append(PolicyFinding("provider", _("“%s” is neither a provider nor a model.") % test.provider))
    if bool(test.channel) != bool(test.group):
        errors.append(PolicyFinding("group", _("A group chat needs both a channel and a group.")))
    if test.sender and not test.group:
        errors.append(PolicyFinding("sender", _("Sender rules only apply in group chats.")))
    return errors
