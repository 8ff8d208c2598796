"""Notify every process that an account's permissions may have changed, so that open sockets are rechecked immediately.

Only a hint: sockets also check periodically. `QuerySet.update` sends no signal, so code that uses it must call
`notify_account_changed`.
"""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from clawsite.accounts.models import AccessToken, User
from clawsite.infra import bus
from clawsite.infra.bus import BusMessage


@dataclass(frozen=True)
class AccountChanged(BusMessage, kind="account"):
    """The permissions or tokens of an account may have changed."""

    user: int


def notify_account_changed(user_pk: int) -> None:
    bus.publish_on_commit(AccountChanged(user_pk))


def connect_signals() -> None:
    post_save.connect(_user_saved, sender=User)
    post_delete.connect(_user_deleted, sender=User)
    m2m_changed.connect(_permissions_changed, sender=User.groups.through)
    m2m_changed.connect(_permissions_changed, sender=User.user_permissions.through)
    m2m_changed.connect(_group_changed, sender=Group.permissions.through)
    pre_delete.connect(_group_deleted, sender=Group)
    post_save.connect(_token_changed, sender=AccessToken)
    post_delete.connect(_token_changed, sender=AccessToken)


def _user_saved(instance: User, created: bool, update_fields: frozenset[str] | None = None, **_signal: Any) -> None:
    if not created and update_fields != frozenset({"last_login"}):  # signing in changes no permissions
        notify_account_changed(instance.pk)


def _user_deleted(instance: User, **_signal: Any) -> None:
    notify_account_changed(instance.pk)


def _permissions_changed(instance: Model, action: str, reverse: bool, pk_set: set[int] | None, **_signal: Any) -> None:
    if not reverse and action.startswith("post_"):
        notify_account_changed(instance.pk)
    elif reverse and action in ("post_add", "post_remove"):
        for pk in pk_set or ():
            notify_account_changed(pk)
    elif action == "pre_clear" and isinstance(instance, Group):  # afterwards the members are unknown
        _notify_members(instance)


def _group_changed(instance: Model, action: str, **_signal: Any) -> None:
    if action.startswith("post_") and isinstance(instance, Group):
        _notify_members(instance)


def _group_deleted(instance: Group, **_signal: Any) -> None:
    _notify_members(instance)


def _notify_members(group: Group) -> None:
    for pk in User.objects.filter(groups=group).values_list("pk", flat=True):
        notify_account_changed(pk)


def _token_changed(instance: AccessToken, **_signal: Any) -> None:
    notify_account_changed(instance.user_id)
