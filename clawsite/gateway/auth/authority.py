"""What one connection may do now: its credential looked at again and again, because a socket outlives a sign-in.

The account's scopes are read at the handshake, at least every minute, and at once when the bus says that the account has
changed; a request that comes meanwhile waits for the answer. Secrets are not kept: a token is known by its row.
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
    """How somebody showed who they are, in a form that can be checked again."""

    kind: Literal["cookie", "api-token", "gateway-token", "device-token"]
    cookie: str = ""
    token_id: int = 0
    device: int = 0  # the row of the device that signed, 0 without one
    role: Role = "operator"


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """An account as it was when last looked at."""

    user: User
    scopes: frozenset[str]  # of the account, narrowed by its token
    sees_all: bool  # may read everybody's sessions
    manages_devices: bool = False  # everybody's

    @classmethod
    def of(cls, user: User, ceiling: frozenset[str] | None) -> "AccountAccess":
        scopes = scopes_of(user)
        return cls(
            user,
            scopes if ceiling is None else scopes & ceiling,
            user.has_perm("accounts.view_any_session"),
            user.has_perm(MANAGE_ANY_DEVICE),
        )


class SignedOut(Exception):
    """The credential is no longer good: token revoked or expired, signed out, account closed."""


def read_access(credential: Credential) -> AccountAccess | None:
    """Look at the rows; None when the credential is no longer good, or its device was revoked. A node has no scopes."""
    if credential.device and not _is_paired(credential):
        return None
    standing = _read_account_access(credential)
    return replace(standing, scopes=frozenset()) if standing and credential.role == "node" else standing


def _is_paired(credential: Credential) -> bool:
    role = {"is_node": True} if credential.role == "node" else {"is_operator": True}
    return Device.objects.active().filter(pk=credential.device, **role).exists()


def _read_account_access(credential: Credential) -> AccountAccess | None:
    match credential.kind:
        case "cookie":
            user = find_user_by_cookie(credential.cookie)
            return AccountAccess.of(user, None) if user else None
        case "gateway-token":
            user = tokens.find_service_user(tokens.GATEWAY)
            return AccountAccess.of(user, tokens.GATEWAY_SCOPES) if user and user.is_active else None
        case "api-token":
            valid = AccessToken.objects.filter(valid_token_filter(), user__is_active=True)
            token = valid.select_related("user", "made_with").filter(pk=credential.token_id).first()
            return AccountAccess.of(token.limited_account(), token.ceiling()) if token else None
        case "device-token":
            own = DeviceToken.objects.valid().filter(pk=credential.token_id).first()
            return AccountAccess.of(own.limited_account(), own.ceiling()) if own else None


def find_user_by_cookie(cookie: str) -> User | None:
    """The account signed in under a session cookie; also checks that its password has not changed since."""
    store: type[SessionBase] = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
    request = HttpRequest()
    request.session = _ReadOnlySession(store(cookie).load())
    user = auth.get_user(request)
    return user if isinstance(user, User) and user.is_active else None


class _ReadOnlySession(SessionBase):
    """A sign-in to look at. Django deletes or renews a stale one while it looks; that is for a page, which can set a cookie."""

    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__()
        self.update(content)

    def flush(self) -> None:
        self.clear()

    def cycle_key(self) -> None:
        pass


class Authority:
    """The standing of one connection, narrowed by what it asked for."""

    def __init__(
        self,
        credential: Credential,
        standing: AccountAccess,
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
        self._update(standing)

    @property
    def user(self) -> User:
        return self._standing.user

    @property
    def scopes(self) -> frozenset[str]:
        return effective_scopes(self._standing.scopes, None, self._wanted)

    def credential_allows(self, scope: Scope) -> bool:
        """Whether the credential allows it, also where this connection has asked for less."""
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
        """Time for the regular look; a little early, so that the minute is kept."""
        return self._now() - self._checked_at > limits.RECHECK_SECONDS - limits.TICK_SECONDS - 1

    def doubt(self) -> None:
        """The account may have changed: believe nothing until it has been looked at again."""
        self._checked_at = float("-inf")
        self._checking = None  # an answer under way may be older than the change

    async def ensure_current(self) -> "Authority":
        """Itself, no older than a minute; SignedOut when the credential is no longer good."""
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
        me = asyncio.current_task()
        standing = await self._read_access(self.credential)
        if self._checking is not me:
            return  # doubted again meanwhile
        if standing is None:
            self._is_signed_out = True
        else:
            self._update(standing)

    def _update(self, standing: AccountAccess) -> None:
        self._standing = standing
        self._checked_at = self._now()


async def _read_access_async(credential: Credential) -> AccountAccess | None:
    return await db.read(read_access, credential)
