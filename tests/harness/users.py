"""Users, their access tokens and browser sessions."""

import itertools
from functools import cache

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission
from django.test import Client

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.accounts.tokens import issue_token

PASSWORD = "a-long-test-password"
_numbers = itertools.count(1)


@cache
def _password_hash(_hasher: str) -> str:
    """Hash once per hasher: the real one takes a quarter of a second."""
    return make_password(PASSWORD)


def create_user(*groups: str, name: str = "") -> User:
    """Create a user of these groups, by default of the group User. The password is PASSWORD."""
    password = _password_hash(settings.PASSWORD_HASHERS[0])
    user = User.objects.create(username=name or f"person-{next(_numbers)}", password=password)
    user.groups.set(Group.objects.filter(name__in=groups or ("User",)))
    return user


def add_permissions(user: User, *permissions: str) -> User:
    """Add permissions to a user. Returns a fresh instance without cached permissions."""
    for permission in permissions:
        app, codename = permission.split(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return User.objects.get(pk=user.pk)


def create_token(user: User, *scopes: str) -> str:
    """Create an access token with these scopes, by default all of the account's. Returns its secret."""
    return issue_token(user, "test", sorted(scopes or scopes_of(user)))[1]


def session_cookie(user: User) -> str:
    """Sign in as a browser does. Returns the value of the session cookie."""
    browser = Client()
    browser.force_login(user)
    return browser.cookies[settings.SESSION_COOKIE_NAME].value
