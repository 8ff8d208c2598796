"""What a connection may do now. Its credential is rechecked, because a socket can outlive a sign-in.

The account's scopes are read during the handshake, at least once a minute, and immediately when the bus reports a change to
the account; requests that arrive during the check wait for it. Secrets are not stored: a token is identified by its row.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.conf import settings
from django.contrib import auth
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.utils.module_loading import import_string

from clawsite.accounts import tokens
from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import AccessToken, User, valid_token_filter
from clawsite.gateway.models import Device, DeviceToken
from clawsite.gateway.models.device import MANAGE_ANY_DEVICE
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.scopes import Scope, effective_scopes, has_scope
from clawsite.infra import db

Role = Literal["operator", "node"]


@dataclass(frozen=True, slots=True)
class Credential:
    """How a client authenticated, in a form that can be rechecked."""

    kind: Literal["cookie", "api-token", "gateway-token", "device-token"]
    cookie: str = ""
    token_id: int = 0
    device: int = 0  # primary key of the device that signed, 0 if none
    role: Role = "operator"


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """An account's permissions when last checked."""

    user: User
    scopes: frozenset[str]  # of the account, limited by its token
    sees_all: bool  # may read all users' sessions
    manages_devices: bool = False  # may manage all users' devices

    @classmethod
    def for_user(cls, user: User, ceiling: frozenset[str] | None) -> "AccountAccess":
        scopes = scopes_of(user)
        return cls(
            user,
            scopes if ceiling is None else scopes & ceiling,
            user.has_perm("accounts.view_any_session"),
            user.has_perm(MANAGE_ANY_DEVICE),
        )


class SignedOut(Exception):
    """The credential is no longer valid: token revoked or expired, signed out, or account disabled."""


def read_access(credential: Credential) -> AccountAccess | None:
    """Read the account's access. Return None if the credential is invalid or its device was revoked. A node has no scopes."""
    if credential.device and not _is_paired(credential):
        return None
    access = _read_account_access(credential)
    return replace(access, scopes=frozenset()) if access and credential.role == "node" else access


def _is_paired(credential: Credential) -> bool:
    role = {"is_node": True} if credential.role == "node" else {"is_operator": True}
    return Device.objects.active().filter(pk=credential.device, **role).exists()


def _read_account_access(credential: Credential) -> AccountAccess | None:
    match credential.kind:
        case "cookie":
            user = find_user_by_cookie(credential.cookie)
            return AccountAccess.for_user(user, None) if user else None
        case "gateway-token":
            user = tokens.find_service_user(tokens.GATEWAY)
            return AccountAccess.for_user(user, tokens.GATEWAY_SCOPES) if user and user.is_active else None
        case "api-token":
            valid = AccessToken.objects.filter(valid_token_filter(), user__is_active=True)
            token = valid.select_related("user", "made_with").filter(pk=credential.token_id).first()
            return AccountAccess.for_user(token.limited_account(), token.ceiling()) if token else None
        case "device-token":
            device_token = DeviceToken.objects.valid().filter(pk=credential.token_id).first()
            return AccountAccess.for_user(device_token.limited_account(), device_token.ceiling()) if device_token else None


def find_user_by_cookie(cookie: str) -> User | None:
    """Return the account of a session cookie, unless its password has changed since it signed in."""
    store: type[SessionBase] = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
    request = HttpRequest()
    request.session = _ReadOnlySession(store(cookie).load())
    user = auth.get_user(request)
    return user if isinstance(user, User) and user.is_active else None


class _ReadOnlySession(SessionBase):
    """A browser session that can't be changed. Django deletes or renews stale ones on read, but only a page can set the cookie."""

    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__()
        self.update(content)

    def flush(self) -> None:
        self.clear()

    def cycle_key(self) -> None:
        pass


class Authority:
    """The access of one connection, limited to the scopes it requested."""

    def __init__(
        self,
        credential: Credential,
        access: AccountAccess,
        wanted: frozenset[str] | None,
        *,
        look: Callable[[Credential], Awaitable[AccountAccess | None]] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.credential = credential
        self._wanted = wanted
        self._read_access = look or _read_access_async
        self._now = now
        self._is_signed_out = False
        self._checking: asyncio.Task[None] | None = None
        self._update(access)

    @property
    def user(self) -> User:
        return self._standing.user

    @property
    def scopes(self) -> frozenset[str]:
        return effective_scopes(self._standing.scopes, None, self._wanted)

    def credential_allows(self, scope: Scope) -> bool:
        """Whether the credential has the scope, even if this connection requested fewer scopes."""
        return not self._is_signed_out and scope in self._standing.scopes

    @property
    def may_read(self) -> bool:
        return not self._is_signed_out and has_scope(self.scopes, Scope.READ)

    @property
    def sees_all(self) -> bool:
        return not self._is_signed_out and self._standing.sees_all

    @property
    def manages_devices(self) -> bool:
        return not self._is_signed_out and self._standing.manages_devices

    @property
    def due(self) -> bool:
        """Whether the regular check is due. It is due a little early, so that checks are never more than a minute apart."""
        return self._now() - self._checked_at > limits.RECHECK_SECONDS - limits.TICK_SECONDS - 1

    def doubt(self) -> None:
        """Require a new check before the next use, because the account may have changed."""
        self._checked_at = float("-inf")
        self._checking = None  # a check in progress may have read the state before the change

    async def ensure_current(self) -> "Authority":
        """Return self, rechecked if older than a minute. Raise SignedOut if the credential is no longer valid."""
        while not self._is_signed_out and self._now() - self._checked_at > limits.RECHECK_SECONDS:
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check())
            await asyncio.wait([self._checking])
            if self._checking is not None and self._checking.done():
                self._checking.result()
        if self._is_signed_out:
            raise SignedOut
        return self

    async def _check(self) -> None:
        this_task = asyncio.current_task()
        access = await self._read_access(self.credential)
        if self._checking is not this_task:
            return  # superseded: doubt() was called again
        if access is None:
            self._is_signed_out = True
        else:
            self._update(access)

    def _update(self, access: AccountAccess) -> None:
        self._standing = access
        self._checked_at = self._now()


async def _read_access_async(credential: Credential) -> AccountAccess | None:
    return await db.read(read_access, credential)
