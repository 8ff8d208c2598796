"""The four groups, the scopes they grant, and the notifications when they change."""

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import transaction

from clawsite.accounts import groups, tokens
from clawsite.accounts.admin.accounts import GROUP_DESCRIPTIONS
from clawsite.accounts.change_notices import AccountChanged
from clawsite.accounts.models import User
from clawsite.infra import bus

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def member(*names: str) -> User:
    user = User.objects.create_user("grace", password="correct horse battery")
    user.groups.set(Group.objects.filter(name__in=names))
    return User.objects.get(pk=user.pk)


@pytest.mark.parametrize(
    ("names", "scopes"),
    [
        ((), set()),
        (("User",), {"operator.read", "operator.write"}),
        (("Approver",), {"operator.approvals"}),
        (("Auditor",), {"operator.read"}),
        (("Operator",), {"operator.admin", "operator.pairing"}),
        (("Operator", "Approver", "User"), set(groups.SCOPES)),
    ],
)
def test_scopes_follow_group_membership(names: tuple[str, ...], scopes: set[str]) -> None:
    assert groups.scopes_of(member(*names)) == scopes


def test_disabled_account_has_no_scopes() -> None:
    user = member("Operator", "Approver", "User")
    user.is_active = False
    assert groups.scopes_of(user) == frozenset()


def rights() -> dict[str, set[str]]:
    return {
        group.name: {f"{app}.{codename}" for app, codename in group.permissions.values_list("content_type__app_label", "codename")}
        for group in Group.objects.all()
    }


def test_reinstalling_groups_changes_nothing() -> None:
    before = rights()
    call_command("migrate", verbosity=0)
    assert rights() == before
    assert set(before) == {"Operator", "Approver", "User", "Auditor"}


def test_reinstalling_restores_modified_builtin_groups() -> None:
    before = rights()
    Group.objects.get(name="User").permissions.set(Permission.objects.filter(codename="administer_gateway"))
    call_command("migrate", verbosity=0)
    assert rights() == before


def test_admin_describes_permissions_of_each_group() -> None:
    assert set(GROUP_DESCRIPTIONS) == set(groups.GATEWAY_PERMISSIONS)


def test_operators_manage_all_tables_auditors_only_view() -> None:
    held = rights()
    assert {"accounts.change_user", "sessions_app.delete_session", "auth.add_group"} <= held["Operator"]
    assert not held["Operator"] & {"accounts.approve_commands", "accounts.view_any_session", "sessions.view_session"}
    assert all(right.split(".")[1].startswith("view_") for right in held["Auditor"])
    assert "sessions_app.view_run" in held["Auditor"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[AccountChanged]:
    messages: list[AccountChanged] = []
    monkeypatch.setattr(bus, "publish", messages.append)
    return messages


def test_permission_change_is_published_once_after_commit(told: list[AccountChanged]) -> None:
    user = member("User")
    about = AccountChanged(user.pk)
    group = Group.objects.get(name="Operator")

    def save_password() -> None:
        user.set_password("another correct horse")
        user.save()

    def switch_off() -> None:
        user.is_active = False
        user.save(update_fields=["is_active"])

    token, _secret = tokens.issue_token(user, "laptop", ["operator.read"])
    custom = Group.objects.create(name="Reviewers")
    for change in (
        save_password,
        lambda: user.groups.add(group),
        lambda: user.groups.remove(group),
        lambda: group.user_set.add(user),
        lambda: group.user_set.clear(),
        lambda: user.user_permissions.add(Permission.objects.get(codename="pair_devices")),
        lambda: custom.user_set.add(user),
        lambda: custom.permissions.add(Permission.objects.get(codename="approve_commands")),
        lambda: custom.delete(),
        lambda: tokens.revoke_token(token),
        lambda: token.delete(),
        switch_off,
    ):
        told.clear()
        with transaction.atomic():
            change()
            assert told == []
        assert about in told


def test_sign_in_publishes_no_permission_change(told: list[AccountChanged]) -> None:
    user = member("User")
    told.clear()
    user.save(update_fields=["last_login"])
    assert told == []


def test_rolled_back_permission_change_is_not_published(told: list[AccountChanged]) -> None:
    user = member("User")
    told.clear()
    with transaction.atomic():
        user.save()
        transaction.set_rollback(True)
    assert told == []
