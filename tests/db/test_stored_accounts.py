"""Permissions of a token as currently stored: cached objects never outlive a change. No notifications are sent here."""

import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clawsite.accounts import stored_accounts, tokens
from clawsite.accounts.models import AccessToken, FailedSignIns, User
from clawsite.accounts.sign_in import throttle
from clawsite.infra import row_cache
from tests.harness.protocol import running_gateway

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

READ, WRITE = "operator.read", "operator.write"


@pytest.fixture
def parent_and_secret(user):
    """Return a token created with another one, and its secret. Both have been used."""
    parent, _secret = tokens.issue_token(user, "parent", [READ, WRITE])
    _token, secret = tokens.issue_token(user, "child", [READ, WRITE], made_with=parent)
    assert scopes(secret) == {READ, WRITE}
    return parent, secret


@pytest.fixture
def secret(parent_and_secret):
    return parent_and_secret[1]


def scopes(secret):
    principal = tokens.find_principal(secret)
    return principal and principal.scopes


def elsewhere(change):
    """Make the change on a separate connection, as another process does."""

    def run():
        try:
            change()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def every_token(**values):
    return lambda: AccessToken.objects.update(**values)


def every_user(**values):
    return lambda: User.objects.update(**values)


ENDINGS = {
    "revoked": every_token(revoked_at=timezone.now()),
    "expired": every_token(expires_at=timezone.now() - timedelta(seconds=1)),
    "deleted": lambda: AccessToken.objects.all().delete(),
    "another secret": every_token(digest="0" * 64),
    "parent revoked": lambda: AccessToken.objects.filter(name="parent").update(revoked_at=timezone.now()),
    "parent expired": lambda: AccessToken.objects.filter(name="parent").update(expires_at=timezone.now()),
    "account deactivated": every_user(is_active=False),
}


@pytest.mark.parametrize("change", ENDINGS.values(), ids=ENDINGS)
def test_ended_token_is_refused_by_the_next_lookup(secret, change):
    elsewhere(change)
    assert tokens.find_principal(secret) is None


def remove_group_permission():
    permission = Permission.objects.get(content_type__app_label="accounts", codename="use_gateway")
    Group.permissions.through.objects.filter(group__name="User", permission=permission).delete()


NARROWINGS = {
    "left the group": (lambda: User.groups.through.objects.all().delete(), set()),
    "group lost the permission": (remove_group_permission, set()),
    "token narrowed": (every_token(scopes=[READ]), {READ}),
    "parent narrowed": (lambda: AccessToken.objects.filter(name="parent").update(scopes=[WRITE]), {WRITE}),
}


@pytest.mark.parametrize(("change", "left"), NARROWINGS.values(), ids=NARROWINGS)
def test_narrowed_rights_apply_to_the_next_lookup(secret, change, left, user):
    try:
        elsewhere(change)
        assert scopes(secret) == left
        assert tokens.find_principal(secret).user.has_perm("accounts.use_gateway") == bool(left)
    finally:
        restore_groups()


def restore_groups():
    from clawsite.accounts.groups import install_groups

    install_groups("default")


def test_granted_and_withdrawn_permissions_apply_to_the_next_lookup(secret, user):
    permission = Permission.objects.get(content_type__app_label="accounts", codename="view_any_session")
    held = User.user_permissions.through(user_id=user.pk, permission=permission)
    elsewhere(held.save)
    assert tokens.find_principal(secret).user.has_perm("accounts.view_any_session")
    elsewhere(held.delete)
    assert not tokens.find_principal(secret).user.has_perm("accounts.view_any_session")
    elsewhere(every_user(is_superuser=True))
    assert tokens.find_principal(secret).user.has_perm("accounts.view_any_session")


def test_tool_limits_apply_to_the_next_lookup(parent_and_secret):
    parent, secret = parent_and_secret
    elsewhere(lambda: AccessToken.objects.filter(pk=parent.pk).update(tools={"deny": ["exec"]}))
    assert tokens.find_principal(secret).user.key_limits["deny"] == ["exec"]
    elsewhere(every_token(tools={}))
    assert tokens.find_principal(secret).user.key_limits is None


def test_disabled_gateway_account_is_refused_by_the_next_lookup():
    name = f"service:{tokens.GATEWAY}"
    tokens.install_gateway_user()
    try:
        assert tokens.find_principal(settings.GATEWAY_TOKEN)
        elsewhere(lambda: User.objects.filter(username=name).update(is_active=False))
        assert tokens.find_principal(settings.GATEWAY_TOKEN) is None
    finally:
        User.objects.filter(username=name).update(is_active=True)


def test_change_while_the_objects_are_built_is_not_missed(user, monkeypatch):
    """Permissions read after a change must not be kept as those from before it, or undoing the change would bring them back."""
    _token, secret = tokens.issue_token(user, "laptop", [READ, WRITE])
    build = stored_accounts._tokens._build
    held = User.groups.through.objects.get(user=user)

    def build_late(prefix):
        held.delete()
        return build(prefix)

    monkeypatch.setattr(stored_accounts._tokens, "_build", build_late)
    assert scopes(secret) == set()
    monkeypatch.undo()
    User.groups.through(user_id=user.pk, group_id=held.group_id).save()
    assert scopes(secret) == {READ, WRITE}


def test_lookup_of_unchanged_rows_takes_two_statements(secret):
    with CaptureQueriesContext(connection) as queries:
        scopes(secret)
    assert len(queries) == 2


def test_each_caller_gets_its_own_account(secret, user):
    tokens.find_principal(secret).user.username = "changed"
    assert tokens.find_principal(secret).user.username == user.username


def test_cache_is_bounded(user, monkeypatch):
    monkeypatch.setattr(row_cache, "MAX_CACHED", 2)
    secrets = [tokens.issue_token(user, f"token {number}", [READ])[1] for number in range(4)]
    for secret in secrets * 2:
        assert scopes(secret) == {READ}
    assert len(stored_accounts._tokens._cached) <= 2


@pytest.fixture
async def list_models(secret):
    """Send a request with the token and return its status."""

    async def send():
        return (await AsyncClient().get("/v1/models", headers={"Authorization": f"Bearer {secret}"})).status_code

    async with running_gateway():
        assert await send() == 200
        yield send


@pytest.mark.parametrize(
    ("change", "status"), [(ENDINGS["revoked"], 401), (ENDINGS["account deactivated"], 401), (every_token(scopes=[]), 403)]
)
async def test_http_request_after_a_change_elsewhere_is_refused(list_models, change, status):
    elsewhere(change)
    assert await list_models() == status


async def test_throttled_address_is_refused_with_a_known_token(list_models):
    def fail_often():
        for _ in range(9):
            throttle.record_failure("127.0.0.1")

    try:
        elsewhere(fail_often)
        assert await list_models() == 429
    finally:
        elsewhere(FailedSignIns.objects.all().delete)
