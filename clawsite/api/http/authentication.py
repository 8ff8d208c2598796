"""Who sends an HTTP request: a program with its token, or a page of ours with the session cookie and Django's CSRF token.

The only place where HTTP interfaces authenticate. What a caller may do with what it asked for is up to the service it reaches.
"""

from dataclasses import dataclass
from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from clawsite.accounts import tokens
from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.accounts.sign_in import throttle
from clawsite.gateway.auth.authority import Credential
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.server import runtime
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Forbidden, TooManyRequests


class Unauthorized(ClawError):
    """No credential, or none that is good now."""

    code = "UNAUTHORIZED"
    http_status = 401


@dataclass(frozen=True, slots=True)
class Caller:
    """`scopes` is what the credential allows of what the account had just now."""

    user: User
    scopes: frozenset[str]
    kind: Literal["cookie", "api-token", "gateway-token"]
    token_id: int | None = None
    cookie: str = ""

    @property
    def credential(self) -> Credential:
        """In a form that can be looked at again while an answer is under way."""
        return Credential(self.kind, cookie=self.cookie, token_id=self.token_id or 0)

    def may(self, *any_of: Scope) -> bool:
        return has_scope(self.scopes, *any_of)


async def authenticate_user(request: HttpRequest, scope: Scope) -> User:
    """The account behind a request, if it has the scope."""
    return (await authenticate(request, scope)).user


async def authenticate(request: HttpRequest, *any_of: Scope) -> Caller:
    """Who it is, if they have one of the scopes, and the account has not asked too often just now.

    A token in the address counts for nothing: addresses are logged.
    """
    secret = tokens.parse_bearer_header(request.headers.get("Authorization", ""))
    who = await db.read(_authenticate_cookie, request) if secret is None else await _authenticate_token(secret, request)
    if wait := runtime.rate_limits().of_account(who.user.pk).wait_ms():
        raise TooManyRequests("too many requests of this account; slow down", retryable=True, retry_after_ms=wait)
    if not who.may(*any_of):
        needed = " or ".join(scope.value for scope in any_of)
        raise Forbidden(
            f"this needs the scope {needed}, which the account or its token does not have", details={"scope": any_of[0].value}
        )
    return who


async def _authenticate_token(secret: str, request: HttpRequest) -> Caller:
    address = throttle.address_of_request(request)
    principal = await db.read(_find_principal, address, secret)
    if principal is None:
        await db.write(throttle.record_failure, address, alone=True)
        raise Unauthorized("the token is not known, was revoked or has expired")
    if principal.unnoted and principal.token_id:
        await db.write(tokens.record_use, principal.token_id, key=f"token {principal.token_id}")
    return Caller(principal.user, principal.scopes or frozenset(), principal.kind, principal.token_id)


def _find_principal(address: str, secret: str) -> tokens.Principal | None:
    throttle.check(address)
    return tokens.find_principal(secret)


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        """Not the page that a person is shown."""
        return HttpResponse(status=403)


_csrf_check = _CsrfCheck(lambda _request: HttpResponse())


def _authenticate_cookie(request: HttpRequest) -> Caller:
    user = getattr(request, "user", None)  # none on the short way, web/programs.py
    if not isinstance(user, User):
        raise Unauthorized("send a token as `Authorization: Bearer …`, or sign in")
    if _csrf_check.process_view(request, None, (), {}) is not None:  # type: ignore[arg-type]  # it looks for an exemption of the view
        raise Forbidden("the CSRF token is missing or wrong: a request with a cookie needs the header X-CSRFToken")
    return Caller(user, scopes_of(user), "cookie", cookie=request.session.session_key or "")
