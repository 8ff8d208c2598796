"""The first administrator: how it is created, and that it can't be created twice."""

import os
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from clawsite.accounts import groups
from clawsite.accounts.models import FirstAdminLink, User
from clawsite.accounts.sign_in import first_admin
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("fresh_installation")]

PASSWORD = "correct horse battery"


@pytest.fixture
def fresh_installation(database: None) -> None:
    FirstAdminLink.objects.all().delete()


def new_link() -> str:
    """The digest of a fresh link's token."""
    link = first_admin.create_first_admin_link("http://127.0.0.1:8765/")
    assert link
    assert link.startswith("http://127.0.0.1:8765/first-admin/")
    return first_admin.hash_token(link.rstrip("/").rpartition("/")[2])


def test_setup_link_creates_admin_without_superuser() -> None:
    user = first_admin.use_link(new_link(), "ada", PASSWORD)
    assert user.check_password(PASSWORD)
    assert user.is_staff
    assert not user.is_superuser
    assert set(user.groups.values_list("name", flat=True)) == {"Operator", "Approver", "User"}
    assert groups.scopes_of(user) == groups.SCOPES
    assert user.has_perm("accounts.change_user")


def test_only_setup_link_digest_is_stored() -> None:
    link = first_admin.create_first_admin_link("http://127.0.0.1:8765") or ""
    token = link.rstrip("/").rpartition("/")[2]
    assert len(token) >= 43  # 256 bits
    assert token not in str(FirstAdminLink.objects.values().get())


def test_setup_link_works_once() -> None:
    digest = new_link()
    first_admin.use_link(digest, "ada", PASSWORD)
    User.objects.all().update(is_active=False)  # even if the administrator no longer exists
    assert not first_admin.is_link_open(digest)
    with pytest.raises(NotFound):
        first_admin.use_link(digest, "grace", PASSWORD)


def test_new_setup_link_invalidates_old_one() -> None:
    old, new = new_link(), new_link()
    assert not first_admin.is_link_open(old)
    assert first_admin.is_link_open(new)
    with pytest.raises(NotFound):
        first_admin.use_link(old, "ada", PASSWORD)


def test_setup_link_expires_after_one_day() -> None:
    digest = new_link()
    link = FirstAdminLink.objects.get()
    assert timedelta(hours=23) < link.expires_at - timezone.now() <= timedelta(hours=24)
    FirstAdminLink.objects.update(expires_at=timezone.now())
    assert not first_admin.is_link_open(digest)
    with pytest.raises(NotFound):
        first_admin.use_link(digest, "ada", PASSWORD)


@pytest.mark.parametrize("how", ["superuser", "operator"])
def test_no_setup_link_once_admin_exists(how: str) -> None:
    digest = new_link()
    admin = User.objects.create_user("root", password=PASSWORD, is_superuser=how == "superuser")
    if how == "operator":
        admin.groups.add(Group.objects.get(name="Operator"))
    assert first_admin.create_first_admin_link("http://127.0.0.1:8765") is None
    assert not first_admin.is_link_open(digest)
    with pytest.raises(NotFound):
        first_admin.use_link(digest, "mallory", PASSWORD)
    assert not User.objects.filter(username="mallory").exists()


def test_taken_username_does_not_consume_setup_link() -> None:
    User.objects.create_user("ada", password="somebody else's")
    digest = new_link()
    with pytest.raises(Conflict):
        first_admin.use_link(digest, "ada", PASSWORD)
    assert first_admin.is_link_open(digest)
    assert User.objects.get(username="ada").check_password("somebody else's")


def test_empty_digest_matches_no_setup_link() -> None:
    new_link()
    assert not first_admin.is_link_open("")


def test_environment_can_name_first_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWSITE_ADMIN_USERNAME", "ada")
    monkeypatch.setenv("CLAWSITE_ADMIN_PASSWORD", PASSWORD)
    assert first_admin.create_first_admin_link("http://127.0.0.1:8765") is None
    assert "CLAWSITE_ADMIN_PASSWORD" not in os.environ
    assert User.objects.get(username="ada").check_password(PASSWORD)
    assert first_admin.admin_exists()


def test_environment_is_ignored_once_admin_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    first_admin.use_link(new_link(), "ada", PASSWORD)
    monkeypatch.setenv("CLAWSITE_ADMIN_USERNAME", "ada")
    monkeypatch.setenv("CLAWSITE_ADMIN_PASSWORD", "a new and different one")
    assert first_admin.create_from_environment() is None
    assert "CLAWSITE_ADMIN_PASSWORD" not in os.environ
    assert User.objects.get(username="ada").check_password(PASSWORD)


def test_environment_rejects_invalid_username(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAWSITE_ADMIN_USERNAME", "service:gateway")
    monkeypatch.setenv("CLAWSITE_ADMIN_PASSWORD", PASSWORD)
    with pytest.raises(InvalidRequest, match="CLAWSITE_ADMIN_USERNAME"):
        first_admin.create_first_admin_link("http://127.0.0.1:8765")
