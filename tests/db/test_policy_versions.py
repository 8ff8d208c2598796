"""Versions of the tool policy: one per change, none lost in concurrent saves, and none that breaks a policy test."""

import threading

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from tools_app.models import PolicyTest, PolicyVersion, ToolPolicy
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store.policies import (
    DEFAULT_RULES,
    current_rules,
    delete_policy,
    find_broken_tests,
    install_policies,
    replace_policies,
    restore_version,
    rules_at,
    save_policy,
)

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("fresh_policy")]

EVERY_KIND = (
    RuleRow("global", profile="full", deny=("gateway",)),
    RuleRow("global", provider="openai/gpt-5", profile="coding", also_allow=("group:web",)),
    RuleRow("agent", "main", allow=("*",)),
    RuleRow("agent", "main", provider="openai", deny=("browser",)),
    RuleRow("group", channel="telegram", group="-100", allow=("message",)),
    RuleRow("group", channel="telegram", group="-100", sender="anna", allow=("*",)),
    RuleRow("group", channel="telegram", group="*", deny=("group:runtime",)),
    RuleRow("sandbox", allow=("group:fs",)),
    RuleRow("sandbox", "main", deny=("exec",)),
    RuleRow("subagent", deny=("web_fetch",)),
)


def stored_rows() -> set[RuleRow]:
    return {policy.as_rule() for policy in ToolPolicy.objects.all()}


def numbers() -> list[int]:
    return list(PolicyVersion.objects.order_by("number").values_list("number", flat=True))


def test_rows_of_every_scope_round_trip():
    for row in EVERY_KIND:
        save_policy(**row.to_json())
    assert stored_rows() == set(current_rules().rows) == set(EVERY_KIND)
    assert current_rules() == rules_at(len(EVERY_KIND) + 1)


def test_saving_same_scope_replaces_row():
    save_policy(scope="group", channel="Telegram", group="-100", sender="@Anna", deny=["exec"])
    save_policy(scope="group", channel="telegram", group="-100", sender="anna", deny=["cron"])
    assert current_rules().group_row("telegram", "-100", "anna").deny == ("cron",)
    assert ToolPolicy.objects.filter(scope="group").count() == 1


def test_version_records_change_and_author(make_user):
    operator = make_user("Operator")
    save_policy(scope="agent", subject="scout", profile="coding", changed_by=operator)
    delete_policy(scope="agent", subject="scout", changed_by=operator)
    restore_version(2, changed_by=operator)
    replace_policies(DEFAULT_RULES, changed_by=operator)
    told = list(PolicyVersion.objects.order_by("number").values_list("number", "change", "changed_by"))
    words = ["saved agent:scout", "deleted agent:scout", "restored version 2", "imported"]
    assert told[1:] == [(number, change, operator.pk) for number, change in enumerate(words, 2)]


def test_version_outlives_its_authors_account(make_user):
    operator = make_user("Operator")
    save_policy(scope="global", deny=["exec"], changed_by=operator)
    operator.delete()
    assert PolicyVersion.objects.get(number=2).changed_by is None


def test_version_numbers_have_no_gaps():
    for deny in (["exec"], ["cron"], []):
        save_policy(scope="global", deny=deny)
    assert numbers() == [1, 2, 3, 4]


def test_restoring_version_creates_new_version():
    save_policy(scope="group", channel="telegram", group="*", deny=["exec"])
    save_policy(scope="agent", subject="main", profile="minimal")
    assert restore_version(1) == 4
    assert set(current_rules().rows) == stored_rows() == set(DEFAULT_RULES)
    assert rules_at(3).row("agent", "main").profile == "minimal"
    assert restore_version(3) == 5
    assert set(current_rules().rows) == stored_rows() == set(rules_at(3).rows)


def test_missing_version_cannot_be_restored():
    with pytest.raises(NotFound, match="99"):
        restore_version(99)
    assert numbers() == [1]


def test_restore_based_on_old_version_is_rejected():
    save_policy(scope="global", deny=["exec"])
    with pytest.raises(Conflict):
        restore_version(1, expected_version=1)
    assert current_rules().row("global").deny == ("exec",)


def test_snapshot_without_model_and_group_fields_loads():
    old = {"scope": "agent", "subject": "main", "profile": "coding", "allow": [], "deny": ["write"], "also_allow": []}
    PolicyVersion.objects.create(number=2, created_at=PolicyVersion.objects.get().created_at, snapshot=[old])
    assert current_rules() == PolicyRules(2, (RuleRow("agent", "main", profile="coding", deny=("write",)),))
    assert restore_version(2) == 3
    assert stored_rows() == {RuleRow("agent", "main", profile="coding", deny=("write",))}


def test_replace_policies_replaces_all_rows():
    assert replace_policies(EVERY_KIND, expected_version=1) == 2
    assert stored_rows() == set(current_rules().rows) == set(EVERY_KIND)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([RuleRow("global", deny=("reed",))], "reed"),
        ([RuleRow("global"), RuleRow("agent", "main"), RuleRow("agent", " MAIN ")], "Duplicate entries: agent:main"),
        ([RuleRow("group", channel="telegram", group="x" * 201)], "200"),
    ],
)
def test_failed_replacement_changes_nothing(rows, words):
    with pytest.raises(InvalidRequest, match=words):
        replace_policies(rows)
    assert (stored_rows(), numbers()) == (set(DEFAULT_RULES), [1])


def test_longest_scope_can_be_saved():
    save_policy(scope="group", channel="c" * 64, group="g" * 200, sender="s" * 200, deny=["exec"])
    assert current_rules().group_row("c" * 64, "g" * 200, "s" * 200).deny == ("exec",)


# Concurrent changes.


def at_once(*changes):
    """Run each in its own thread and connection, all at the same time. Return what each returned or raised."""
    ready, outcomes = threading.Barrier(len(changes)), []

    def run(change):
        try:
            connection.ensure_connection()
            ready.wait()
            outcomes.append(change())
        except Exception as error:
            outcomes.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[change]) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_one_of_several_concurrent_saves_wins():
    def save(agent):
        return lambda: save_policy(scope="agent", subject=agent, profile="coding", expected_version=1).subject

    outcomes = at_once(*(save(f"agent-{number}") for number in range(6)))
    (saved,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
    refused = [outcome for outcome in outcomes if outcome != saved]
    assert [type(outcome) for outcome in refused] == [Conflict] * 5
    assert all("it is at version 2, not 1" in str(outcome) for outcome in refused)
    assert numbers() == [1, 2]
    assert stored_rows() == set(current_rules().rows) == {*DEFAULT_RULES, RuleRow("agent", saved, profile="coding")}


def test_concurrent_changes_of_different_kinds_conflict():
    save_policy(scope="agent", subject="scout", profile="coding")
    outcomes = at_once(
        lambda: save_policy(scope="global", deny=["exec"], expected_version=2),
        lambda: delete_policy(scope="agent", subject="scout", expected_version=2),
        lambda: restore_version(1, expected_version=2),
        lambda: replace_policies(EVERY_KIND, expected_version=2),
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 3
    assert numbers() == [1, 2, 3]
    assert stored_rows() == set(current_rules().rows)


def test_saves_without_expected_version_are_serialized():
    agents = [f"agent-{number}" for number in range(6)]
    outcomes = at_once(*(lambda agent=agent: save_policy(scope="agent", subject=agent, profile="coding") for agent in agents))
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert numbers() == list(range(1, 8))
    assert (
        stored_rows()
        == set(current_rules().rows)
        == {*DEFAULT_RULES, *(RuleRow("agent", each, profile="coding") for each in agents)}
    )
    for number in range(2, 8):  # each version has all rows of the previous one and one more
        assert set(rules_at(number - 1).rows) < set(rules_at(number).rows)


# Policy tests.


@pytest.fixture
def never_exec():
    return PolicyTest.objects.create(name="support never gets exec", expected="never", agent="support", tool="exec")


def test_change_that_breaks_policy_test_is_rolled_back(never_exec):
    with pytest.raises(InvalidRequest) as refusal:
        save_policy(scope="agent", subject="support", profile="coding")
    assert str(refusal.value) == ("Policy test “support never gets exec” would fail: exec for support is allowed by all layers.")
    assert (stored_rows(), numbers()) == (set(DEFAULT_RULES), [1])


@pytest.mark.parametrize(
    "change",
    [
        lambda: replace_policies([RuleRow("agent", "support", profile="full")]),
        lambda: restore_version(2),
        lambda: delete_policy(scope="agent", subject="support"),
    ],
    ids=["import", "restore", "delete"],
)
def test_every_kind_of_change_runs_policy_tests(change):
    save_policy(scope="global", profile="full")
    save_policy(scope="agent", subject="support", profile="messaging")
    PolicyTest.objects.create(name="no commands", expected="never", agent="support", tool="group:runtime")
    before = current_rules()
    with pytest.raises(InvalidRequest, match="no commands"):
        change()
    assert current_rules() == before
    assert stored_rows() == set(before.rows)


def test_change_that_passes_tests_is_published(never_exec):
    save_policy(scope="agent", subject="support", profile="coding", deny=["group:runtime"])
    assert find_broken_tests(current_rules()) == []


def test_failing_test_names_model_and_sender():
    PolicyTest.objects.create(
        name="no exec in the group", expected="never", tool="exec", agent="main", provider="openai", channel="telegram", group="*"
    )
    rows = [
        RuleRow("global", profile="full"),
        RuleRow("global", provider="openai", deny=("exec",)),
        RuleRow("global", provider="openai/gpt-5", deny=("cron",)),
        RuleRow("group", channel="telegram", group="*", deny=("exec",)),
        RuleRow("group", channel="telegram", group="-1", sender="anna", allow=("*",)),
    ]
    with pytest.raises(InvalidRequest, match=r"exec for main \(openai/gpt-5, telegram/-1#anna\) is allowed"):
        replace_policies(rows)
    assert replace_policies(rows[:-1]) == 2


def test_policy_test_of_missing_tool_is_explained():
    PolicyTest.objects.create(name="old", expected="never", tool="gone_tool")
    with pytest.raises(InvalidRequest, match="gone_tool for any-other-agent is not a known tool"):
        save_policy(scope="global", deny=["exec"])


# The first version.


def test_first_version_is_installed_once():
    save_policy(scope="global", profile="full")
    install_policies()
    assert numbers() == [1, 2]


def test_default_rows_fit_earlier_migration_states():
    """A receiver that used newer columns would fail when migrating to the first state only."""
    earlier = MigrationLoader(connection).project_state(("tools_app", "0001_initial")).apps.get_model("tools_app", "ToolPolicy")
    with pytest.raises(TypeError, match="provider"):
        earlier(provider="")

    class Earlier:
        """The models of that state, for tables that don't exist in this test."""

        def get_model(self, app, name):
            return self

        objects = property(lambda self: self)
        made: list = []

        def __call__(self, **fields):
            return earlier(**fields)

        def using(self, alias):
            return self

        def exists(self):
            return False

        def bulk_create(self, rows):
            self.made += rows

        def create(self, **fields):
            self.made.append(fields["snapshot"])

    install_policies(apps=Earlier())
    assert [(row.scope, row.subject, row.profile) for row in Earlier.made[:2]] == [
        ("global", "", "minimal"),
        ("agent", "main", "coding"),
    ]
    assert PolicyRules.from_snapshot(1, Earlier.made[2]).rows == DEFAULT_RULES
