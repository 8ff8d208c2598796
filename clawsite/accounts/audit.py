"""Audit log entries for accounts: sign-in and sign-out, accounts created, changed and deleted, permissions granted and revoked.

Uses signals, so that the admin, the command line and our own pages are all covered. `QuerySet.update` sends none, so code that
uses it on an account must record the change itself. Passwords, cookies and digests are never logged.
"""

import unicodedata
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Model, Q
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete, pre_save
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.sign_in import throttle
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor

# Watched account fields. Changes to privileges are logged as a separate action.
PRIVILEGE_FIELDS = ("is_staff", "is_superuser")
AUDITED_FIELDS = ("username", "display_name", "email", "is_active", "is_service", "password")
RECORDED_FIELDS = ("is_active", "is_service", *PRIVILEGE_FIELDS)  # the new values of these fields are logged too


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="clawsite.accounts.audit.in")
    user_logged_out.connect(_signed_out, dispatch_uid="clawsite.accounts.audit.out")
    user_login_failed.connect(_sign_in_failed, dispatch_uid="clawsite.accounts.audit.failed")
    pre_save.connect(_user_saving, sender=User)
    post_save.connect(_user_created, sender=User)
    pre_delete.connect(_user_deleting, sender=User)
    post_save.connect(_group_saved, sender=Group)
    pre_delete.connect(_group_deleting, sender=Group)
    post_delete.connect(_token_deleted, sender=AccessToken)
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_permissions_changed, sender=through)


def _signed_in(request: HttpRequest | None, user: User, **_signal: Any) -> None:
    audit_log.record("sign_in.ok", actor=acting.actor_for_user(user), subject=_subject_of(user), **_client_details(request))


def _signed_out(request: HttpRequest | None, user: User | None, **_signal: Any) -> None:
    if user is not None:
        audit_log.record("sign_in.out", actor=acting.actor_for_user(user), subject=_subject_of(user), **_client_details(request))


def _sign_in_failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_signal: Any) -> None:
    """Log names of existing accounts only: other input may be a password typed into the wrong field."""
    username = unicodedata.normalize("NFKC", str(credentials.get("username") or ""))
    user = User.objects.filter(username=username[:150]).first()
    if user:
        audit_log.record(
            "sign_in.failed", actor=Actor("person"), subject=_subject_of(user), name=user.username, **_client_details(request)
        )
    else:
        # A digest makes repeated input recognizable without revealing it.
        digest = salted_hmac("clawsite.audit", username, algorithm="sha256").hexdigest()[:12]
        audit_log.record("sign_in.failed", actor=Actor("person"), subject=("unknown account", digest), **_client_details(request))


def _client_details(request: HttpRequest | None) -> dict[str, str]:
    if request is None:
        return {}
    address = throttle.address_of_request(request)
    return {"address": address, "browser": request.META.get("HTTP_USER_AGENT", "")[:300]}


def _subject_of(user: User) -> tuple[str, str]:
    return "account", str(user.pk)


def _user_saving(instance: User, update_fields: frozenset[str] | None = None, **_signal: Any) -> None:
    """Compare before saving, while the old values are still known."""
    watched = [name for name in (*AUDITED_FIELDS, *PRIVILEGE_FIELDS) if update_fields is None or name in update_fields]
    before = User.objects.filter(pk=instance.pk).values(*watched).first() if instance.pk and watched else None
    if before is None:
        return
    changed = [name for name in watched if before[name] != getattr(instance, name)]
    for action, names in (("account.changed", AUDITED_FIELDS), ("permissions.changed", PRIVILEGE_FIELDS)):
        if fields := [name for name in changed if name in names]:
            values = {name: getattr(instance, name) for name in fields if name in RECORDED_FIELDS}
            audit_log.record(action, subject=_subject_of(instance), name=instance.username, fields=fields, **values)


def _user_created(instance: User, created: bool, **_signal: Any) -> None:
    if created:
        values: dict[str, Any] = {name: True for name in RECORDED_FIELDS if getattr(instance, name)}
        audit_log.record("account.changed", subject=_subject_of(instance), name=instance.username, change="made", **values)


def _user_deleting(instance: User, **_signal: Any) -> None:
    groups = sorted(instance.groups.values_list("name", flat=True))
    audit_log.record("account.changed", subject=_subject_of(instance), name=instance.username, change="deleted", groups=groups)


def _group_saved(instance: Group, created: bool, **_signal: Any) -> None:
    change = "made" if created else "saved"
    audit_log.record("permissions.changed", subject=("group", instance.pk), name=instance.name, change=change)


def _group_deleting(instance: Group, **_signal: Any) -> None:
    members = instance.user_set.count()
    audit_log.record("permissions.changed", subject=("group", instance.pk), name=instance.name, change="deleted", members=members)


def _token_deleted(instance: AccessToken, **_signal: Any) -> None:
    if instance.revoked_at is None:
        audit_log.record(
            "token.revoked", subject=("access token", instance.pk), name=instance.name, owner=instance.user_id, change="deleted"
        )


def _permissions_changed(instance: Model, action: str, model: type[Model], pk_set: set[Any] | None, **_signal: Any) -> None:
    """Log changes to an account's groups, and to an account's or group's permissions. The subject is the side that was changed."""
    change = {"post_add": "given", "post_remove": "taken", "pre_clear": "all taken"}.get(action)
    if change is None or (pk_set is not None and not pk_set):
        return
    kind = "account" if isinstance(instance, User) else "group" if isinstance(instance, Group) else "permission"
    related = {User: "accounts", Group: "groups", Permission: "permissions"}[model]
    audit_log.record(
        "permissions.changed",
        subject=(kind, instance.pk),
        name=str(instance),
        change=change,
        **({related: _read_names(model, pk_set)} if pk_set else {"of": related}),
    )


def _read_names(model: type[Model], keys: set[Any]) -> list[str]:
    field = {User: "username", Group: "name", Permission: "codename"}[model]
    return sorted(model._default_manager.filter(Q(pk__in=keys)).values_list(field, flat=True))
