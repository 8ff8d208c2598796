"""What is recorded automatically: sign-ins, accounts, permissions, tokens, settings, the policy."""

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from clawsite.accounts import groups, tokens
from clawsite.accounts.models import FailedSignIns, User
from clawsite.accounts.sign_in import browsers, first_admin
from clawsite.cli.command import run_command
from clawsite.infra.models import AuditEntry
from tests.harness.users import PASSWORD
from tools_app.models import McpServer, Plugin
from tools_app.policy_store import policies, policy_tests, source_changes

pytestmark = pytest.mark.usefixtures("database", "plain_static_files", "since")


class Since:
    """Return the entries added since the test began or since the last call."""

    def __init__(self) -> None:
        self._last = 0
        self()

    def __call__(self, *actions: str) -> list[AuditEntry]:
        rows = list(AuditEntry.objects.filter(pk__gt=self._last).order_by("pk"))
        self._last = rows[-1].pk if rows else self._last
        return [row for row in rows if not actions or row.action in actions]


@pytest.fixture
def since(database) -> Since:
    return Since()


@pytest.fixture
def staff(make_user, since):
    def make(*names: str, name: str) -> Client:
        user = make_user(*names, name=name)
        user.is_staff = True
        user.save()
        client = Client()
        client.force_login(user)
        since()
        return client

    return make


def of(entry: AuditEntry) -> tuple[str, str, str]:
    return entry.action, entry.actor_kind, entry.actor_name


def sign_in(client: Client, name: str, password: str) -> int:
    return client.post("/sign-in/", {"username": name, "password": password}, HTTP_USER_AGENT="Firefox", secure=True).status_code


def test_sign_in_and_sign_out_are_recorded_with_address(make_user, since):
    ada, client = make_user(name="ada"), Client()
    since()
    assert sign_in(client, "ada", PASSWORD) == 302
    (entry,) = since()
    assert of(entry) == ("sign_in.ok", "person", "ada")
    assert (entry.actor_id, entry.subject_kind, entry.subject_id) == (str(ada.pk), "account", str(ada.pk))
    assert entry.details == {"address": "127.0.0.1", "browser": "Firefox"}
    client.post("/sign-out/", secure=True)
    assert [of(entry) for entry in since()] == [("sign_in.out", "person", "ada")]


def test_failed_sign_in_records_only_known_account_names(make_user, since):
    ada, client = make_user(name="ada"), Client()
    since()
    assert sign_in(client, "ada", "not-her-password") == 400
    assert sign_in(client, "correct-horse-typed-into-the-wrong-field", "ada") == 400
    assert sign_in(client, "correct-horse-typed-into-the-wrong-field", "ada") == 400
    assert sign_in(client, "x" * 150, "y") == 400
    known, first, again, long = since()
    assert {entry.action for entry in (known, first, again, long)} == {"sign_in.failed"}
    assert (known.subject_kind, known.subject_id, known.details["name"]) == ("account", str(ada.pk), "ada")
    assert first.subject_id == again.subject_id != long.subject_id  # equal digests show that the input was the same
    stored = str(list(AuditEntry.objects.values()))
    assert "not-her-password" not in stored
    assert "correct-horse" not in stored


def test_failed_sign_in_costs_few_queries(make_user, since):
    make_user(name="ada")
    with CaptureQueriesContext(connection) as queries:
        authenticate(None, username="ada", password="wrong")
    assert len(queries) <= 3
    assert len(since("sign_in.failed")) == 1


def test_remote_sign_out_is_recorded(make_user, since):
    ada = make_user(name="ada")
    for _ in range(2):
        sign_in(Client(), "ada", PASSWORD)
    since()
    browsers.sign_out_browser(ada, browsers.list_browsers(ada)[0].pk)
    (entry,) = since()
    assert (entry.action, entry.subject_id, entry.details["browsers"]) == ("sign_in.out", str(ada.pk), 1)


def test_token_is_recorded_without_its_secret(make_user, since):
    ada = make_user(name="ada")
    since()
    token, secret = tokens.issue_token(ada, "laptop", ["operator.read"])
    tokens.revoke_token(token)
    tokens.revoke_token(token)
    made, revoked = since()
    assert (made.action, revoked.action) == ("token.made", "token.revoked")
    assert (made.subject_kind, made.subject_id) == ("access token", str(token.pk))
    assert made.details["scopes"] == ["operator.read"]
    assert (made.details["owner"], made.details["name"]) == (ada.pk, "laptop")
    stored = str(list(AuditEntry.objects.values()))
    assert secret not in stored
    assert token.digest not in stored


def test_deleted_token_is_recorded_once(make_user, since):
    ada = make_user(name="ada")
    gone, _secret = tokens.issue_token(ada, "laptop", [])
    revoked, _secret = tokens.issue_token(ada, "phone", [])
    tokens.revoke_token(revoked)
    revoked.refresh_from_db()
    since()
    gone.delete()
    revoked.delete()
    (entry,) = since()
    assert (entry.action, entry.details["change"], entry.details["name"]) == ("token.revoked", "deleted", "laptop")


def test_account_lifecycle_is_recorded(since):
    grace = User.objects.create_user("grace", password="correct horse battery")
    (made,) = since()
    assert (made.action, made.subject_id, made.details["change"]) == ("account.changed", str(grace.pk), "made")
    grace.set_password("another correct horse")
    grace.email = "grace@example.org"
    grace.save()
    (changed,) = since()
    assert (changed.action, changed.details["fields"]) == ("account.changed", ["email", "password"])
    grace.is_active, grace.is_superuser = False, True
    grace.save()
    account, rights = since()
    assert (account.action, account.details["fields"], account.details["is_active"]) == ("account.changed", ["is_active"], False)
    assert (rights.action, rights.details["is_superuser"]) == ("permissions.changed", True)
    grace.save()
    grace.save(update_fields=["last_login"])
    assert since() == []
    key = str(grace.pk)
    grace.delete()
    (deleted,) = since()
    assert (deleted.subject_id, deleted.details["name"], deleted.details["change"]) == (key, "grace", "deleted")
    stored = str(list(AuditEntry.objects.values()))
    assert "correct horse" not in stored
    assert "pbkdf2" not in stored and "md5$" not in stored


def test_permission_changes_are_recorded_from_both_sides(make_user, since):
    ada, custom = make_user(name="ada"), Group.objects.create(name="Reviewers")
    approve = Permission.objects.get(codename="approve_commands")
    since()
    told = []
    for change in (
        lambda: ada.groups.add(custom),
        lambda: ada.groups.add(custom),  # she is already a member
        lambda: ada.groups.remove(custom),
        lambda: custom.user_set.add(ada),
        lambda: custom.user_set.clear(),
        lambda: ada.user_permissions.add(approve),
        lambda: custom.permissions.add(approve),
        lambda: custom.delete(),
    ):
        change()
        told.append(
            [(each.subject_kind, each.details.get("change"), sorted(each.details)) for each in since("permissions.changed")]
        )
    group, account = ["change", "groups", "name"], ["accounts", "change", "name"]
    assert told == [
        [("account", "given", group)],
        [],
        [("account", "taken", group)],
        [("group", "given", account)],
        [("group", "all taken", ["change", "name", "of"])],
        [("account", "given", ["change", "name", "permissions"])],
        [("group", "given", ["change", "name", "permissions"])],
        [("group", "deleted", ["change", "members", "name"])],
    ]


def test_rolled_back_change_leaves_no_entry(make_user, since):
    ada = make_user(name="ada")
    since()
    with transaction.atomic():
        ada.groups.clear()
        tokens.issue_token(ada, "laptop", [])
        transaction.set_rollback(True)
    assert since() == []


def test_reinstalling_records_nothing(since):
    call_command("migrate", verbosity=0)
    assert since() == []


def test_only_auditors_hold_any_audit_log_permission():
    held = Permission.objects.filter(content_type__app_label="infra").values_list("codename", flat=True)
    assert list(held) == ["view_auditentry"]
    assert [group.name for group in Group.objects.filter(permissions__codename="view_auditentry")] == [groups.AUDITOR]


def test_admin_changes_name_the_acting_user(staff, since):
    client = staff("Operator", name="olga")
    fields = {"username": "new", "usable_password": "true", "password1": "a-quite-long-one", "password2": "a-quite-long-one"}
    user_group = Group.objects.get(name="User").pk
    assert client.post("/admin/accounts/user/add/", {**fields, "groups": user_group}, secure=True).status_code == 302
    told = since()
    assert {of(entry)[1:] for entry in told} == {("person", "olga")}
    assert [entry.action for entry in told] == ["account.changed", "permissions.changed"]
    assert "a-quite-long-one" not in str(list(AuditEntry.objects.values()))


def test_admin_settings_changes_record_fields_without_values(staff, since):
    client = staff("Operator", name="olga")
    address = "/admin/sessions_app/lane/main/change/"
    assert client.post(address, {"max_running": 7, "warn_after_seconds": 3}, secure=True).status_code == 302
    (entry,) = since()
    assert of(entry) == ("settings.changed", "person", "olga")
    assert (entry.subject_kind, entry.subject_id) == ("sessions_app.lane", "main")
    assert entry.details["change"] == "changed"
    assert len(entry.details["fields"]) == 2
    Agent.objects.create(slug="robot", name="Robot", workspace="/srv/robot")
    assert client.post("/admin/agents/agent/robot/delete/", {"post": "yes"}, secure=True).status_code == 302
    (entry,) = since("settings.changed")
    assert (entry.subject_kind, entry.subject_id, entry.details["change"]) == ("agents.agent", "robot", "deleted")
    was = entry.details["was"]
    assert (was["slug"], was["name"], was["workspace"], was["enabled"]) == ("robot", "Robot", "/srv/robot", True)


def test_bulk_delete_is_recorded_per_row_only_on_success(staff, since, monkeypatch):
    from django.utils import timezone

    client = staff("Operator", name="olga")
    rows = [FailedSignIns.objects.create(subject=f"address {n}", failures=9, last_failed_at=timezone.now()) for n in range(3)]
    chosen = {"action": "delete_selected", "post": "yes", "_selected_action": [row.pk for row in rows[:2]]}
    client.raise_request_exception = False

    def fail(*_args, **_kwargs):
        raise RuntimeError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("clawsite.accounts.admin.access.FailedSignInsAdmin.delete_queryset", fail)
        assert client.post("/admin/accounts/failedsignins/", chosen, secure=True).status_code == 500
    assert since() == []
    client.post("/admin/accounts/failedsignins/", chosen, secure=True)
    assert {(each.action, each.subject_id) for each in since()} == {("settings.changed", str(row.pk)) for row in rows[:2]}
    assert FailedSignIns.objects.get() == rows[2]


def test_admin_action_on_non_setting_has_own_action_name(staff, since, make_session, user):
    client, session = staff("Operator", name="olga"), make_session(user)
    since()
    chosen = {"action": "delete_sessions", "_selected_action": str(session.pk), "confirmed": "yes"}
    client.post("/admin/sessions_app/session/", chosen, secure=True)
    (entry,) = since()
    assert of(entry) == ("admin.acted", "person", "olga")
    assert entry.details == {"change": "changed", "fields": ["deleted_at"]}


def test_policy_version_is_recorded_with_its_author(fresh_policy, make_user, since):
    olga = make_user("Operator", name="olga")
    since()
    policies.save_policy(scope="agent", subject="main", profile="minimal", changed_by=olga)
    (entry,) = since()
    assert of(entry) == ("policy.published", "person", "olga")
    number = policies.current_rules().version
    assert (entry.subject_kind, entry.subject_id) == ("policy version", str(number))
    assert entry.details["change"].startswith("saved agent")
    test = policy_tests.save_test(name="main never runs a command", expected="never", tool="exec", agent="main")
    policy_tests.delete_test(test.pk)
    changes = [each.details["change"] for each in since("policy.published")]
    assert [change.split(" “")[0] for change in changes] == ["saved test", "deleted test"]


def test_rejected_policy_is_not_recorded(fresh_policy, since):
    from clawsite.infra.errors import ClawError

    policy_tests.save_test(name="main reads", expected="allowed", tool="read", agent="main")
    since()
    with pytest.raises(ClawError):
        policies.save_policy(scope="agent", subject="main", profile="minimal")
    assert since() == []


def test_tool_sources_are_recorded_without_secrets(since):
    server = source_changes.save_server(
        McpServer(name="weather", command="true", args=["hunter3-hunter3"], env={"API": "hunter2-hunter2"}, enabled=True)
    )
    server.timeout_seconds = 11
    source_changes.save_server(server)
    source_changes.dry_run(source_changes.delete_servers, [server])
    source_changes.switch_servers([server], on=False)
    source_changes.delete_servers([server])
    told = since()
    assert {(each.action, each.subject_kind, each.details["name"]) for each in told} == {
        ("settings.changed", "MCP server", "weather")
    }
    assert [each.details["change"] for each in told] == ["added", "changed", "disabled", "deleted"]
    assert told[1].details["fields"] == ["timeout_seconds"]
    was = {"transport": "stdio", "command": "true", "enabled": False, "timeout_seconds": "11.0", "args": 1, "env": ["API"]}
    assert told[3].details["was"] == was
    assert "hunter2" not in str(list(AuditEntry.objects.values()))


def test_plugin_toggle_is_recorded(echo, since):
    since()
    source_changes.switch_plugins([Plugin.objects.get(name="echo")], on=False)
    assert [(each.subject_kind, each.details) for each in since()] == [("plugin", {"name": "echo", "change": "disabled"})]


def test_host_command_is_recorded_as_actor(make_user, since, capsys):
    from clawsite.cli.commands import token

    make_user(name="ada")
    since()
    run_command(token, "token", ["create", "--user", "ada", "--name", "laptop"])
    (entry,) = since()
    assert (entry.action, entry.actor_kind) == ("token.made", "system")
    assert entry.actor_name.startswith("claw token (")


def test_first_admin_is_recorded(since):
    link = first_admin.create_first_admin_link("http://testserver")
    since()
    client = Client()
    client.get(link, secure=True)
    fields = {"username": "root", "password1": "a-quite-long-one", "password2": "a-quite-long-one"}
    assert client.post("/first-admin/", fields, secure=True).status_code == 302
    assert [of(entry) for entry in since()] == [
        ("account.changed", "person", ""),
        ("account.changed", "person", ""),  # the password: no one was signed in, but a person made the change
        ("permissions.changed", "person", ""),
        ("sign_in.ok", "person", "root"),
    ]


def test_changed_profile_is_recorded(make_user, since):
    ada, client = make_user(name="ada"), Client()
    client.force_login(ada)
    since()
    client.post("/account/profile/", {"display_name": "Ada L.", "email": ""}, secure=True)
    (entry,) = since()
    assert (of(entry), entry.details["fields"]) == (("account.changed", "person", "ada"), ["display_name"])
