"""Read access tokens and service accounts as they are stored now, without the cost of the ORM.

Every request of a program starts here. Plain SQL reads all rows that its permissions depend on, and the objects built from them are
reused only while those rows are identical. So a revoked token or a changed permission takes effect with the next request,
whichever process changed it, without waiting for a notification.
"""

from typing import Any

from django.contrib.auth.models import Group

from clawsite.accounts.models import AccessToken, User
from clawsite.infra import sql
from clawsite.infra.row_cache import RowCache, State


def find_token(prefix: str) -> AccessToken | None:
    """Find a token by its public part, with its account and parent token. All callers share the objects: don't change them."""
    return _tokens.find(prefix)


def find_service_user(username: str) -> User | None:
    """Find a service account. All callers share the object: don't change it."""
    return _service_users.find(username)


def _columns(model: type[Any], alias: str) -> str:
    return ", ".join(f"{alias}.{field.column}" for field in model._meta.concrete_fields)


_TOKEN = AccessToken._meta.db_table
_USER = User._meta.db_table
_READ_TOKEN = f"""
    SELECT u.id, {_columns(AccessToken, "t")}, {_columns(AccessToken, "p")}, {_columns(User, "u")}
    FROM {_TOKEN} t JOIN {_USER} u ON u.id = t.user_id LEFT JOIN {_TOKEN} p ON p.id = t.made_with_id WHERE t.prefix = %s
"""
_READ_SERVICE_USER = f"SELECT u.id, {_columns(User, 'u')} FROM {_USER} u WHERE u.username = %s AND u.is_service"
_READ_PERMISSIONS = f"""
    SELECT permission_id FROM {User.user_permissions.through._meta.db_table} WHERE user_id = %s
    UNION SELECT g.permission_id FROM {Group.permissions.through._meta.db_table} g
    JOIN {User.groups.through._meta.db_table} m ON m.group_id = g.group_id WHERE m.user_id = %s
"""


def _read_token_state(prefix: str) -> State | None:
    return _read_state(_READ_TOKEN, prefix)


def _read_service_user_state(username: str) -> State | None:
    return _read_state(_READ_SERVICE_USER, username)


def _read_state(statement: str, key: str) -> State | None:
    rows = sql.fetch_rows(statement, [key])
    if not rows:
        return None
    user_pk, *row = rows[0]
    permissions = frozenset(pk for (pk,) in sql.fetch_rows(_READ_PERMISSIONS, [user_pk, user_pk]))
    return (*row, permissions)


def _build_token(prefix: str) -> AccessToken | None:
    token = AccessToken.objects.select_related("user", "made_with").filter(prefix=prefix).first()
    if token:
        token.user.get_all_permissions()  # the account caches them, so read them while the state is known
    return token


def _build_service_user(username: str) -> User | None:
    user = User.objects.filter(username=username, is_service=True).first()
    if user:
        user.get_all_permissions()
    return user


_tokens = RowCache(_read_token_state, _build_token)
_service_users = RowCache(_read_service_user_state, _build_service_user)
