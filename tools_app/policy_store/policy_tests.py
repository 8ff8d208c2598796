"""Writing the policy tests, and how each of them stands now.

A test that does not hold is not saved: it would stop every later change of the policy, also those that have nothing to do
with it. First the policy is corrected, then the test keeps it so.
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
    """`is_idle`: it expects a tool to be allowed that its plugin or server does not bring now, so it says nothing."""

    test: PolicyTest
    fault: BrokenExpectation | None
    is_idle: bool = False

    @property
    def state(self) -> str:
        return "broken" if self.fault else "idle" if self.is_idle else "holds"

    @property
    def words(self) -> str:
        return describe_broken_test(self.fault) if self.fault else ""


def check_all_tests() -> list[CheckedTest]:
    """Every test and whether it holds under the rules of now."""
    faults = {fault.expectation.name: fault for fault in find_broken_tests(current_rules())}
    tests = list(PolicyTest.objects.all())
    absent = find_absent_among(test.tool for test in tests)
    return [
        CheckedTest(test, faults.get(test.name), test.tool in absent and test.expected == PolicyTest.Expected.ALLOWED)
        for test in tests
    ]


@requires_plugins
def save_test(
    pk: int | None = None, *, changed_by: User | None = None, expected_version: int | None = None, **fields: Any
) -> PolicyTest:
    """Make or replace a test, as a version. InvalidRequest says what is wrong with it, or the case in which it does not hold.

    Another test that is broken now does not matter here: the way to a repair may lead over this one.
    """
    wanted = normalize_test(**fields)
    if faults := list(find_test_errors(wanted)):
        raise InvalidRequest(" ".join(fault.words for fault in faults))
    number = reserve_version_number(expected_version)
    test = PolicyTest.objects.filter(pk=pk).first() if pk else PolicyTest()
    if test is None:
        raise NotFound(_("This test no longer exists."))
    for name in (*Expectation.WORDS, *Expectation.FLAGS):
        setattr(test, name, getattr(wanted, name))
    try:
        with transaction.atomic():
            test.save()
    except IntegrityError:
        raise Conflict(_("A test named “%s” already exists.") % wanted.name) from None
    if why := describe_failure(wanted):
        raise InvalidRequest(why)
    record_version(number, changed_by, f"saved test “{test.name}”")
    return test


def describe_failure(test: Expectation) -> str:
    """The case in which it does not hold under the rules of now, in words; empty if it holds."""
    faults = find_broken_among([test], current_rules())
    words = _("This test fails now, so it would block every change. Fix the policy first: %s")
    return words % describe_broken_test(faults[0]) if faults else ""


@transaction.atomic
def delete_test(pk: int, *, changed_by: User | None = None, expected_version: int | None = None) -> None:
    """Take a test away, as a version."""
    number = reserve_version_number(expected_version)
    test = PolicyTest.objects.filter(pk=pk).first()
    if test is None:
        raise NotFound(_("This test no longer exists."))
    test.delete()
    record_version(number, changed_by, f"deleted test “{test.name}”")


def normalize_test(**fields: Any) -> Expectation:
    """Names as policies have them: lower case, without blanks around them."""
    values: dict[str, Any] = {name: str(fields.get(name, "")).strip() for name in Expectation.WORDS}
    values |= {name: values[name].lower() for name in ("expected", "agent", "provider", "channel")}
    values |= {"tool": normalize_entry(values["tool"]), "sender": sender_key(values["sender"])}
    return Expectation(**values | {name: bool(fields.get(name, False)) for name in Expectation.FLAGS})


def find_test_errors(test: Expectation) -> list[PolicyFinding]:
    """What keeps it from meaning anything; whether it holds is another question."""
    found = []
    if not test.name:
        found.append(PolicyFinding("name", _("Enter a name, for example: support-bot never gets exec.")))
    if test.expected not in PolicyTest.Expected.values:
        found.append(PolicyFinding("expected", _("Choose the expected result.")))
    if not test.tool or "*" in test.tool[:-1] or not is_known_tool(test.tool):
        found.append(PolicyFinding("tool", _("“%s” is not a tool, group, plugin or pattern that matches one.") % test.tool))
    if test.agent and not SLUG_PATTERN.fullmatch(test.agent):
        found.append(PolicyFinding("agent", _("“%s” is not a valid agent ID.") % test.agent))
    if test.provider and not PROVIDER_PATTERN.fullmatch(test.provider):
        found.append(PolicyFinding("provider", _("“%s” is neither a provider nor a model.") % test.provider))
    if bool(test.channel) != bool(test.group):
        found.append(PolicyFinding("group", _("A group chat needs both a channel and a group.")))
    if test.sender and not test.group:
        found.append(PolicyFinding("sender", _("Sender rules only apply in group chats.")))
    return found
