"""Policies in the database: defaults of a new server, validation, and a version for every change."""

import pytest
from django.apps import apps
from django.contrib.admin.sites import site
from django.db import IntegrityError, transaction

from agents.models import Agent
from clawsite.accounts.models import User
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound
from tools_app.admin.policy_forms import ToolPolicyForm
from tools_app.models import PolicyVersion, ToolPolicy
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store.policies import current_rules, delete_policy, install_policies, rules_at, save_policy
from tools_app.sources import registry

pytestmark = pytest.mark.django_db


def kept(agent: str) -> set[str]:
    facts = (each.facts for each in registry.load_installed().tools.values())
    return set(evaluate(PolicyQuery(agent).about(facts), current_rules()).kept)


def test_new_server_has_coding_main_agent_and_minimal_others():
    rules = current_rules()
    assert rules == PolicyRules(1, (RuleRow("global", profile="minimal"), RuleRow("agent", "main", profile="coding")))
    assert {"read", "write", "edit", "glob", "grep"} <= kept("main")
    assert not {"read", "write", "edit", "glob", "grep"} & kept("other")


def test_file_tools_are_discovered():
    found = registry.load_installed().tools
    assert {"read", "write", "edit", "glob", "grep"} <= found.keys()
    assert found["grep"].facts.groups == ("fs", "openclaw")


def test_migrating_again_keeps_operator_changes():
    save_policy(scope="agent", subject="main", profile="full")
    install_policies()
    assert current_rules().row("agent", "main").profile == "full"
    assert PolicyVersion.objects.count() == 2


def test_migration_state_without_tables_is_ignored():
    class NoTables:
        def get_model(self, app, name):
            raise LookupError

    install_policies(apps=NoTables())


def test_installed_rows_match_installed_version():
    ToolPolicy.objects.all().delete()
    PolicyVersion.objects.all().delete()
    assert current_rules() == PolicyRules(0)
    install_policies(apps=apps)
    assert {policy.as_rule() for policy in ToolPolicy.objects.all()} == set(current_rules().rows)


def test_every_save_records_next_version():
    somebody = User.objects.create_user("operator")
    save_policy(scope="agent", subject="Main ", profile="coding", deny=["Write", "bash", "write"], changed_by=somebody)
    newest = PolicyVersion.objects.get(number=2)
    assert newest.changed_by == somebody
    assert newest.snapshot == [
        {"scope": "agent", "subject": "main", "profile": "coding", "deny": ["write", "exec"]},
        {"scope": "global", "profile": "minimal"},
    ]
    assert current_rules().version == 2
    assert "write" not in kept("main")


def test_rules_of_old_versions_can_be_read():
    before = current_rules()
    save_policy(scope="global", deny=["*"])
    assert rules_at(1) == before != current_rules()
    with pytest.raises(NotFound):
        rules_at(99)


def test_deleting_policy_records_version_and_leaves_agents_minimal():
    save_policy(scope="global", profile="full")
    delete_policy(scope="global")
    assert current_rules().version == 3
    assert not kept("other") & {"read", "write"}
    with pytest.raises(NotFound):
        delete_policy(scope="global")
    assert current_rules().version == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"scope": "planet"},
        {"scope": "global", "subject": "main"},
        {"scope": "agent"},
        {"scope": "agent", "subject": "no such slug"},
        {"scope": "agent", "subject": "../main"},
        {"scope": "global", "profile": "codng"},
        {"scope": "global", "allow": ["reed"]},
        {"scope": "global", "allow": ["read", ""]},
        {"scope": "global", "deny": ["   "]},
        {"scope": "global", "deny": ["group:file"]},
        {"scope": "global", "deny": ["r*d"]},
        {"scope": "global", "deny": ["*d"]},
        {"scope": "global", "also_allow": ["fs"]},
    ],
)
def test_invalid_row_is_rejected_without_version(bad):
    with pytest.raises(InvalidRequest):
        save_policy(**bad)
    assert current_rules().version == 1


@pytest.mark.parametrize(
    "entry", ["*", "exec", "bash", "apply-patch", "group:plugins", "group:openclaw", "sessions_*", "telegram_*", " READ "]
)
def test_known_names_groups_and_patterns_are_accepted(entry):
    save_policy(scope="global", deny=[entry])
    assert current_rules().version == 2


def test_change_based_on_old_version_is_rejected():
    save_policy(scope="global", deny=["exec"], expected_version=1)
    with pytest.raises(Conflict, match="version 2"):
        save_policy(scope="global", deny=[], expected_version=1)
    assert current_rules().row("global").deny == ("exec",)


def test_rules_are_read_with_one_query(django_assert_num_queries):
    with django_assert_num_queries(1):
        current_rules()


@pytest.mark.parametrize("twice", [{"scope": "agent", "subject": "main"}, {"scope": "global", "subject": "x"}])
def test_database_allows_one_row_per_subject(twice):
    with pytest.raises(IntegrityError), transaction.atomic():
        ToolPolicy.objects.create(**twice)


def form(**changes):
    given = {
        "scope": "agent",
        "subject": "scout",
        "profile": "coding",
        "allow": "",
        "deny": "write\r\n edit \r\n",
        "also_allow": "",
    }
    return ToolPolicyForm(given | {"seen_version": current_rules().version} | changes)


def test_form_accepts_one_entry_per_line():
    filled = form()
    assert filled.is_valid(), filled.errors
    assert filled.cleaned_data["deny"] == ["write", "edit"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"deny": "reed"}, "reed"),
        ({"subject": ""}, "not a valid agent ID"),
        ({"profile": "codng"}, "codng"),
        ({"seen_version": 0}, "while you were editing"),
    ],
)
def test_form_shows_errors(changes, words):
    assert words in str(form(**changes).errors)


def test_form_does_not_overwrite_row_with_other_spelling():
    assert "already exists" in str(form(subject=" MAIN").errors)


def test_admin_saves_through_service(rf):
    request = rf.post("/")
    request.user = User.objects.create_user("operator")
    Agent.objects.create(slug="scout")  # otherwise there would be a warning
    filled = form()
    assert filled.is_valid()
    policy = filled.save(commit=False)
    site.get_model_admin(ToolPolicy).save_model(request, policy, filled, change=False)
    newest = PolicyVersion.objects.get(number=2)
    assert newest.changed_by == request.user
    assert policy.pk == ToolPolicy.objects.get(subject="scout").pk
    site.get_model_admin(ToolPolicy).delete_queryset(request, ToolPolicy.objects.filter(subject="scout"))
    assert current_rules().version == 3


def test_versions_are_read_only(rf):
    versions = site.get_model_admin(PolicyVersion)
    request = rf.get("/")
    request.user = User(is_superuser=True, is_active=True, is_staff=True)
    assert versions.has_view_permission(request)
    for may in (versions.has_add_permission, versions.has_change_permission, versions.has_delete_permission):
        assert not may(request)
