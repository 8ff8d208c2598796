"""Access tokens: what is stored, how long they are valid, and that they only narrow permissions."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from clawsite.accounts import groups, tokens
from clawsite.accounts.models import AccessToken, User
from clawsite.infra.errors import InvalidRequest, Unavailable

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("own_service_users")]

EVERYTHING = sorted(groups.SCOPES)


@pytest.fixture
def own_service_users(database: None) -> Iterator[None]:
    """Service accounts stay between tests; restore those that a test changes."""
    yield
    User.objects.filter(is_service=True).delete()
    tokens.install_gateway_user()


def scopes_by(secret: str) -> frozenset[str] | None:
    principal = tokens.find_principal(secret)
    assert principal
    return principal.scopes


def person(*memberships: str, name: str = "ada") -> User:
    user = User.objects.create_user(name, password="correct horse battery")
    user.groups.set(Group.objects.filter(name__in=memberships))
    return user


def test_only_token_digest_is_stored() -> None:
    token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"])
    stored = " ".join(str(value) for value in AccessToken.objects.values_list().get(pk=token.pk))
    assert secret.startswith(f"claw_{token.prefix}_")
    assert secret not in stored
    random_part = secret.split("_", 2)[2]
    assert random_part not in stored
    assert len(random_part) >= 43  # 256 bits


def test_token_resolves_its_account_and_altered_token_fails() -> None:
    token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"])
    principal = tokens.find_principal(secret)
    assert principal is not None
    assert (principal.user.username, principal.kind, principal.token_id) == ("ada", "api-token", token.pk)
    for wrong in (secret[:-1], secret + "x", secret.upper(), f"claw_{token.prefix}_", "claw_", "", "claw__", "x" * 5000):
        assert tokens.find_principal(wrong) is None


def test_token_expires_after_ninety_days_by_default() -> None:
    token, _secret = tokens.issue_token(person("User"), "laptop", [])
    assert timedelta(days=89) < token.expires_at - timezone.now() <= timedelta(days=90)


def test_expired_token_is_rejected() -> None:
    token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"], timezone.now() + timedelta(hours=1))
    assert tokens.find_principal(secret)
    AccessToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert tokens.find_principal(secret) is None


def test_token_cannot_be_created_expired() -> None:
    with pytest.raises(InvalidRequest, match="in the future"):
        tokens.issue_token(person("User"), "laptop", [], timezone.now())


def test_revoked_token_stays_revoked() -> None:
    token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"])
    tokens.revoke_token(token)
    revoked_at = AccessToken.objects.get(pk=token.pk).revoked_at
    tokens.revoke_token(token)
    assert tokens.find_principal(secret) is None
    assert AccessToken.objects.get(pk=token.pk).revoked_at == revoked_at


def test_token_scopes_are_limited_to_account_scopes() -> None:
    _token, secret = tokens.issue_token(person("User"), "laptop", EVERYTHING)
    assert scopes_by(secret) == {"operator.read", "operator.write"}


def test_token_scopes_are_limited_to_granted_scopes() -> None:
    _token, secret = tokens.issue_token(person("User", "Operator", "Approver"), "laptop", ["operator.read"])
    assert scopes_by(secret) == {"operator.read"}


def test_token_without_scopes_has_no_access() -> None:
    _token, secret = tokens.issue_token(person("User", "Operator"), "laptop", [])
    assert scopes_by(secret) == frozenset()


def test_token_does_not_gain_new_account_scopes() -> None:
    user = person("User")
    _token, secret = tokens.issue_token(user, "laptop", EVERYTHING)
    user.groups.add(Group.objects.get(name="Operator"))
    assert scopes_by(secret) == {"operator.read", "operator.write"}


def test_token_loses_scopes_removed_from_account() -> None:
    user = person("User", "Operator")
    _token, secret = tokens.issue_token(user, "laptop", EVERYTHING)
    user.groups.remove(Group.objects.get(name="Operator"))
    assert scopes_by(secret) == {"operator.read", "operator.write"}
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert tokens.find_principal(secret) is None


def test_unknown_scope_is_rejected_by_name() -> None:
    with pytest.raises(InvalidRequest, match=r"operator\.everything"):
        tokens.issue_token(person("User"), "laptop", ["operator.everything"])


def test_last_use_is_recorded_at_most_once_per_minute() -> None:
    token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"])

    def used_at() -> object:
        tokens.record_use(token.pk)
        return AccessToken.objects.get(pk=token.pk).last_used_at

    def is_due() -> bool:
        principal = tokens.find_principal(secret)
        return principal is not None and principal.use_unrecorded

    assert is_due()
    first = used_at()
    assert first is not None
    assert not is_due()
    assert used_at() == first
    long_ago = timezone.now() - timedelta(minutes=2)
    AccessToken.objects.filter(pk=token.pk).update(last_used_at=long_ago)
    assert is_due()
    assert used_at() != long_ago


def test_token_lookup_is_read_only() -> None:
    _token, secret = tokens.issue_token(person("User"), "laptop", ["operator.read"])
    with CaptureQueriesContext(connection) as asked:
        assert tokens.find_principal(secret)
        assert tokens.find_principal(settings.GATEWAY_TOKEN)
    assert asked.captured_queries
    assert {query["sql"].split()[0] for query in asked.captured_queries} == {"SELECT"}


def test_migrate_creates_gateway_token_account() -> None:
    User.objects.filter(is_service=True).delete()
    with pytest.raises(Unavailable, match="claw prepare"):
        tokens.find_principal(settings.GATEWAY_TOKEN)
    call_command("migrate", verbosity=0)
    assert scopes_by(settings.GATEWAY_TOKEN) == {"operator.read", "operator.write"}


def test_migrate_does_not_reenable_gateway_token() -> None:
    User.objects.filter(pk=tokens.ensure_service_user("gateway").pk).update(is_active=False)
    call_command("migrate", verbosity=0)
    assert tokens.find_principal(settings.GATEWAY_TOKEN) is None


def test_gateway_token_scopes_ignore_account_groups() -> None:
    principal = tokens.find_principal(settings.GATEWAY_TOKEN)
    assert principal
    assert (principal.kind, principal.token_id) == ("gateway-token", None)
    principal.user.groups.set(Group.objects.all())
    assert scopes_by(settings.GATEWAY_TOKEN) == {"operator.read", "operator.write"}


def test_disabling_service_account_disables_gateway_token() -> None:
    User.objects.filter(pk=tokens.ensure_service_user("gateway").pk).update(is_active=False)
    assert tokens.find_principal(settings.GATEWAY_TOKEN) is None


def test_service_account_is_created_once_without_password() -> None:
    first, second = tokens.ensure_service_user("cron"), tokens.ensure_service_user("cron")
    assert first.pk == second.pk
    assert first.is_service
    assert not first.has_usable_password()
    assert groups.scopes_of(first) == {"operator.read", "operator.write"}
