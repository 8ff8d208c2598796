"""Access tokens: create and revoke them, and find the account behind one.

A token narrows its account's rights and never adds to them. Callers first check with `throttle` whether an address may try.
Finding an account only reads; `record_use` records the use after the response was sent.
"""

import copy
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from clawsite.accounts import change_notices, stored_accounts
from clawsite.accounts.groups import READ, SCOPES, WRITE, scopes_of
from clawsite.accounts.models import AccessToken, User
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Forbidden, InvalidRequest, Unavailable

# Programs on the host can chat and read. Approvals, policy and accounts stay with people.
GATEWAY_SCOPES = frozenset({READ, WRITE})
MAX_ENTRIES = 500  # per list of tools
MAX_ENTRY_LENGTH = 128
GATEWAY = "gateway"  # the service account of the gateway token
LAST_USED_UPDATE_INTERVAL = timedelta(minutes=1)  # writing on every request would turn each read into a write


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller and its kind of credential. `scopes` is the account's scopes that the credential allows."""

    user: User
    scopes: frozenset[str] | None
    kind: Literal["api-token", "gateway-token"]
    token_id: int | None
    use_unrecorded: bool = False  # the token's last use is out of date: call `record_use`


def issue_token(
    user: User,
    name: str,
    scopes: list[str],
    expires_at: datetime | None = None,
    *,
    allow_tools: Sequence[str] = (),
    deny_tools: Sequence[str] = (),
    made_with: AccessToken | None = None,
) -> tuple[AccessToken, str]:
    """Create a token and return its secret, once. Scopes beyond those of the account or the parent token are dropped."""
    if user.key_limits:  # otherwise a limited token could escape its limits
        raise Forbidden(_("A token with tool limits can't create tokens. Use one without limits, or sign in."))
    if made_with and made_with.made_with_id:
        raise Forbidden(_("This token was created with another token and can't create tokens. Use the parent token, or sign in."))
    if unknown := set(scopes) - SCOPES:
        raise InvalidRequest(
            _("Unknown token scope “%(scope)s”. Use one of: %(known)s.")
            % {"scope": sorted(unknown)[0], "known": ", ".join(sorted(SCOPES))}
        )
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidRequest(_("The expiration must be in the future."))
    prefix = secrets.token_hex(4)
    secret = f"claw_{prefix}_{secrets.token_urlsafe(32)}"
    granted = set(scopes) & scopes_of(user) & (made_with.ceiling() if made_with else SCOPES)
    token = AccessToken(user=user, name=name, prefix=prefix, digest=_digest(secret), scopes=sorted(granted), made_with=made_with)
    token.tools = validate_limits(allow_tools, deny_tools)
    if expires_at is not None:
        token.expires_at = expires_at
    if made_with:
        token.expires_at = min(token.expires_at if expires_at else made_with.expires_at, made_with.expires_at)
    with transaction.atomic():
        token.save()
        expires = token.expires_at.isoformat(timespec="seconds")
        details = {"tools": token.tools} if token.tools else {}
        details |= {"made_with": made_with.prefix} if made_with else {}
        audit_log.record(
            "token.made", subject=_subject_of(token), owner=user.pk, name=name, scopes=token.scopes, expires=expires, **details
        )
    return token, secret


def limit_token(token: AccessToken, *, allow_tools: Sequence[str], deny_tools: Sequence[str]) -> None:
    """Change which tools runs started with the token can use. Runs already started keep their limits."""
    with transaction.atomic():
        token.tools = validate_limits(allow_tools, deny_tools)
        token.save(update_fields=["tools"])
        audit_log.record("token.limited", subject=_subject_of(token), owner=token.user_id, name=token.name, tools=token.tools)
        change_notices.notify_account_changed(token.user_id)


def validate_limits(allow_tools: Sequence[str], deny_tools: Sequence[str]) -> dict[str, list[str]]:
    """Return the lists as stored: policy entries, lowercase, without duplicates. Unknown names match nothing."""
    lists = {}
    for name, entries in (("allow", allow_tools), ("deny", deny_tools)):
        cleaned = list(dict.fromkeys(entry.strip().lower() for entry in entries if entry.strip()))
        if len(cleaned) > MAX_ENTRIES or any(len(entry) > MAX_ENTRY_LENGTH or "*" in entry[:-1] for entry in cleaned):
            message = _(
                "The %(name)s list can have at most %(most)d entries of %(length)d characters, each a tool, `group:fs`, or a "
                "prefix such as `sessions_*`."
            )
            raise InvalidRequest(message % {"name": name, "most": MAX_ENTRIES, "length": MAX_ENTRY_LENGTH})
        if cleaned:
            lists[name] = cleaned
    return lists


def revoke_token(token: AccessToken) -> None:
    """Revoke a token and those created with it; repeating it changes nothing."""
    with transaction.atomic():
        if AccessToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
            audit_log.record("token.revoked", subject=_subject_of(token), owner=token.user_id, name=token.name)
            change_notices.notify_account_changed(token.user_id)


def _subject_of(token: AccessToken) -> tuple[str, str]:
    return "access token", str(token.pk)


def parse_bearer_header(authorization: str) -> str | None:
    """Return the secret of `Authorization: Bearer …`; None if the header is missing or different."""
    kind, space, secret = authorization.partition(" ")
    return secret.strip() if space and kind.lower() == "bearer" else None


def find_principal(secret: str) -> Principal | None:
    """Return the account behind a valid secret, or None without giving a reason. Reads only."""
    if hmac.compare_digest(secret.encode(), settings.GATEWAY_TOKEN.encode()):
        user = find_service_user(GATEWAY)
        if user is None:
            raise Unavailable("the gateway token has no account in the database; run `claw prepare` to create it")
        return Principal(user, GATEWAY_SCOPES & scopes_of(user), "gateway-token", None) if user.is_active else None
    return _find_token_principal(secret)


def _find_token_principal(secret: str) -> Principal | None:
    head, _separator, rest = secret.partition("_")
    prefix = rest.partition("_")[0]
    if head != "claw" or len(prefix) > 16:
        return None
    token = stored_accounts.find_token(prefix)
    # The prefix is public and finds the row; the digest of the full secret is compared in constant time.
    if token is None or not hmac.compare_digest(_digest(secret), token.digest):
        return None
    now = timezone.now()
    if token.has_ended or not token.user.is_active:
        return None
    use_unrecorded = token.last_used_at is None or token.last_used_at < now - LAST_USED_UPDATE_INTERVAL
    user = copy.copy(token.limited_account())
    return Principal(user, token.ceiling() & scopes_of(user), "api-token", token.pk, use_unrecorded)


def record_use(token_id: int) -> None:
    """Record that a token was used now. Writes at most once per minute."""
    now = timezone.now()
    is_due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - LAST_USED_UPDATE_INTERVAL)
    AccessToken.objects.filter(is_due, pk=token_id).update(last_used_at=now)


def find_service_user(name: str) -> User | None:
    """Find a program's service account. Its name has a colon, which no form accepts, so no user can take it."""
    return copy.copy(stored_accounts.find_service_user(f"service:{name}"))


def ensure_service_user(name: str) -> User:
    """Return the service account, creating it if needed."""
    if existing := find_service_user(name):
        return existing
    with transaction.atomic():
        user, created = User.objects.get_or_create(username=f"service:{name}", defaults={"is_service": True})
        if created:
            user.set_unusable_password()
            user.save(update_fields=["password"])
            user.user_permissions.add(Permission.objects.get(content_type__app_label="accounts", codename="use_gateway"))
    return user


def install_gateway_user(**_signal: Any) -> None:
    """Create the gateway's account after every migrate, so that no handshake has to. A disabled one stays disabled."""
    ensure_service_user(GATEWAY)


def _digest(secret: str) -> str:
    """Plain SHA-256: 256 random bits can't be guessed, so a slow hash adds nothing."""
    return sha256(secret.encode()).hexdigest()
