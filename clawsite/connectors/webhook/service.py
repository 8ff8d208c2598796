"""Create and change webhooks: validation, secrets, audit log. For people only; agents, webhooks and services cannot do this.

A change to a webhook that acts for another user needs that user's consent (see consent).
"""

import functools
import hmac
import re
import secrets
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents.prepare.model_choice import choose_model
from agents.selectors import find_agent
from clawsite.accounts.groups import WRITE, scopes_of
from clawsite.accounts.models import User
from clawsite.accounts.tokens import ensure_service_user
from clawsite.connectors.webhook.models import GENERAL_SLUGS, Hook, HookDelivery, SpentSignature
from clawsite.connectors.webhook.prompt_templates import MAX_TEMPLATE_LENGTH, TemplateError, check_template
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.encryption import decrypt, encrypt
from clawsite.infra.errors import ClawError, Conflict, Forbidden, InvalidRequest, NotFound, Unavailable
from clawsite.routing.directives import parse_thinking_level

DEFAULT_ACCOUNT = "hooks"  # the default service account of webhooks
SLUG_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
HEADER_PATTERN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{0,80}")
SECRET_PURPOSE = "webhook signature"  # noqa: S105  # a purpose, not a secret
MIN_SECRET_LENGTH = 16
RECORDED_FIELDS = (
    "slug", "name", "enabled", "owner_id", "agent", "action", "signature", "signature_header", "delivery_header", "instructions",
    "message_template", "session_key_template", "allow_request_session_key", "model", "thinking", "timeout_seconds", "deliver",
    "wake_mode", "allow_unsafe", "keep_bodies",
)  # fmt: skip
PRESERVED_FIELDS = ("token_digest", "token_made_at", "sealed_secret", "agreed_at")  # not part of any form


def find_default_owner() -> User:
    return ensure_service_user(DEFAULT_ACCOUNT)


def read_signing_secret(hook: Hook) -> str:
    """Return the signing secret. If there is none, return a random one, so that verification takes the same time."""
    return decrypt(hook.sealed_secret or _placeholder_secret(), purpose=SECRET_PURPOSE)


@functools.cache
def _placeholder_secret() -> str:
    return encrypt(secrets.token_hex(), purpose=SECRET_PURPOSE)


def hash_token(token: str) -> str:
    """Plain SHA-256: 256 random bits cannot be guessed."""
    return sha256(token.encode(errors="replace")).hexdigest()


def validate_webhook(hook: Hook, *, secret: str = "", makes_token: bool = False) -> dict[str, str]:
    """Return errors by field; empty if the webhook can be saved."""
    faults: dict[str, str] = {}
    if not SLUG_PATTERN.fullmatch(hook.slug):
        faults["slug"] = _("Use a-z, 0-9, - and _, at most 64 characters, not starting with - or _.")
    if hook.slug in GENERAL_SLUGS and hook.action != hook.slug:
        faults["action"] = _("The general webhook “%s” can only have the action of the same name.") % hook.slug
    for field in ("message_template", "session_key_template"):
        try:
            check_template(getattr(hook, field))
        except TemplateError as error:
            faults[field] = str(error)
    if len(hook.instructions) > MAX_TEMPLATE_LENGTH:
        faults["instructions"] = _("Instructions can have at most %d characters.") % MAX_TEMPLATE_LENGTH
    for field in ("signature_header", "delivery_header"):
        if not HEADER_PATTERN.fullmatch(getattr(hook, field)):
            faults[field] = _("This is not a valid header name.")
    for field, read in (("agent", find_agent), ("model", choose_model), ("thinking", parse_thinking_level)):
        if value := getattr(hook, field):
            try:
                read(value)
            except ClawError as error:
                faults[field] = error.message
    if hook.signature and not hook.signature_header:
        faults["signature_header"] = _("Enter the name of the signature header.")
    if secret and len(secret) < MIN_SECRET_LENGTH:
        faults["secret"] = _("A secret must have at least %d characters.") % MIN_SECRET_LENGTH
    if hook.signature and not (secret or hook.sealed_secret):
        faults["secret"] = _("A signature needs the secret that the sender signs with.")
    if not (hook.signature or hook.token_digest or makes_token):
        faults["signature"] = _("Choose a token or a signature; otherwise anyone could call this webhook.")
    if not hook.owner.is_active or WRITE not in scopes_of(hook.owner):
        faults["owner"] = _("This account is disabled or not allowed to chat with agents.")
    return faults


@transaction.atomic
def save_webhook(hook: Hook, *, by: User, seen: str = "", secret: str = "", makes_token: bool = False) -> str:
    """Save the webhook. Return its new token if `makes_token`. New secrets replace the old ones immediately.

    Raise Conflict if the webhook has changed since `seen`, the version the editor opened, or by default since `hook` was read.
    """
    _check_permission(by, "change_hook" if hook.pk else "add_hook")
    before = _lock_unchanged(hook.pk, seen or hook.seen) if hook.pk else None
    for name in PRESERVED_FIELDS if before else ():
        setattr(hook, name, getattr(before, name))
    if faults := validate_webhook(hook, secret=secret, makes_token=makes_token):
        field, words = next(iter(faults.items()))
        raise InvalidRequest(f"{field}: {words}")
    changed = [name for name in RECORDED_FIELDS if getattr(before, name, None) != getattr(hook, name)]
    if secret:
        if hook.pk and _is_new_secret(secret, hook):
            _delete_signatures(hook)
        hook.sealed_secret = encrypt(secret, purpose=SECRET_PURPOSE)
        changed.append("secret")
    token = ""
    if makes_token:
        token = f"claw_hook_{secrets.token_urlsafe(32)}"
        hook.token_digest, hook.token_made_at = hash_token(token), timezone.now()
        changed.append("token")
    hook.updated_at = timezone.now()
    if by == hook.owner:
        hook.agreed_at = hook.updated_at
    elif not set(changed) <= {"enabled"}:  # consent is for the version that was seen; enabling or disabling keeps it
        hook.agreed_at = None
    hook.save()
    record_change(hook, by, "changed" if before else "made", fields=changed, enabled=hook.enabled, believed=hook.allow_unsafe)
    return token


def _lock_unchanged(pk: int, seen: str) -> Hook:
    """Lock and return the row. Raise Conflict if it is not the version `seen`."""
    row = Hook.objects.select_for_update().filter(pk=pk).first()
    if row is None:
        raise NotFound(_("The webhook was deleted."))
    if row.seen != seen:
        raise Conflict(conflict_message())
    return row


def conflict_message() -> str:
    return _("Another user changed this webhook after you opened it. Open it again to see the current version.")


def _is_new_secret(secret: str, hook: Hook) -> bool:
    """Whether the secret differs from the stored one. False if that cannot be decrypted, such as after a server key change."""
    try:
        return not hmac.compare_digest(secret.encode(), read_signing_secret(hook).encode())
    except Unavailable:
        return False


def _delete_signatures(hook: Hook) -> None:
    """Delete signatures made with the old secret: they no longer authenticate, so duplicates need no detection."""
    SpentSignature.objects.filter(hook_id=hook.pk).delete()
    HookDelivery.objects.filter(hook_id=hook.pk, signature_digest__isnull=False).update(signature_digest=None)


@transaction.atomic
def set_enabled(hook: Hook, *, by: User, enabled: bool) -> None:
    """Enable or disable. Disabling applies from the next delivery; started runs continue."""
    _check_permission(by, "change_hook")
    if Hook.objects.filter(pk=hook.pk).exclude(enabled=enabled).update(enabled=enabled, updated_at=timezone.now()):
        record_change(hook, by, "changed", fields=["enabled"], enabled=enabled)


@transaction.atomic
def delete_webhook(hook: Hook, *, by: User) -> None:
    """Delete the webhook. Its deliveries stay in the log."""
    _check_permission(by, "delete_hook")
    record_change(
        hook, by, "deleted", was={name: value for name in RECORDED_FIELDS if (value := getattr(hook, name)) not in ("", None)}
    )
    hook.delete()


def _check_permission(by: User, right: str) -> None:
    if by.is_service or not by.is_active or not by.has_perm(f"connectors.{right}"):
        raise Forbidden(_("You don’t have permission to create or change webhooks. Ask an operator."))


def record_change(hook: Hook, by: User, change: str, **details: Any) -> None:
    audit_log.record(
        "hook.changed",
        actor=acting.actor_for_user(by),
        subject=("hook", hook.pk),
        change=change,
        path=hook.slug,
        owner=hook.owner_id,
        **details,
    )
