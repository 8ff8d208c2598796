"""Authenticate HTTP requests: programs by token, Clawsite's own pages by session cookie and CSRF token.

All HTTP interfaces authenticate here. Each service checks whether the caller may access a particular object.
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
    """Credentials are missing or not valid."""

    code = "UNAUTHORIZED"
    http_status = 401


@dataclass(frozen=True, slots=True)
class Caller:
    """`scopes` are the account's scopes, limited to those of the credential."""

    user: User
    scopes: frozenset[str]
    kind: Literal["cookie", "api-token", "gateway-token"]
    token_id: int | None = None
    cookie: str = ""

    @property
    def credential(self) -> Credential:
        """The credential in a form that can be checked again while a response is in progress."""
        return Credential(self.kind, cookie=self.cookie, token_id=self.token_id or 0)

    def may(self, *any_of: Scope) -> bool:
        return has_scope(self.scopes, *any_of)


async def authenticate_user(request: HttpRequest, scope: Scope) -> User:
    """Return the account of a request. Raise Forbidden without the scope."""
    return (await authenticate(request, scope)).user


async def authenticate(request: HttpRequest, *any_of: Scope) -> Caller:
    """Return the caller. Raise Forbidden without one of the scopes, TooManyRequests above the account's rate limit.

    A token in the URL is ignored, because URLs are logged.
    """
    secret = tokens.parse_bearer_header(request.headers.get("Authorization", ""))
    caller = await db.read(_authenticate_cookie, request) if secret is None else await _authenticate_token(secret, request)
    if wait := runtime.rate_limits().of_account(caller.user.pk).wait_ms():
        raise TooManyRequests("too many requests from this account; slow down", retryable=True, retry_after_ms=wait)
    if not caller.may(*any_of):
        needed = " or ".join(scope.value for scope in any_of)
        raise Forbidden(
            f"this requires the scope {needed}, which the account or its token doesn't have", details={"scope": any_of[0].value}
        )
    return caller


async def _authenticate_token(secret: str, request: HttpRequest) -> Caller:
    address = throttle.address_of_request(request)
    principal = await db.read(_find_principal, address, secret)
    if principal is None:
        await db.write(throttle.record_failure, address, alone=True)
        raise Unauthorized("the token is unknown, revoked or expired")
    if principal.use_unrecorded and principal.token_id:
        await db.write(tokens.record_use, principal.token_id, key=f"token {principal.token_id}")
    return Caller(principal.user, principal.scopes or frozenset(), principal.kind, principal.token_id)


def _find_principal(address: str, secret: str) -> tokens.Principal | None:
    throttle.check(address)
    return tokens.find_principal(secret)


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponse:
        """Return a plain 403, which the caller replaces, instead of the error page for browsers."""
        return HttpResponse(status=403)


_csrf_check = _CsrfCheck(lambda _request: HttpResponse())


def _authenticate_cookie(request: HttpRequest) -> Caller:
    user = getattr(request, "user", None)  # not set by clawsite.web.middleware.api_handler
    if not isinstance(user, User):
        raise Unauthorized("send a token as `Authorization: Bearer …`, or sign in")
    if _csrf_check.process_view(request, None, (), {}) is not None:  # type: ignore[arg-type]  # the view is only checked for csrf_exempt
        raise Forbidden("the CSRF token is missing or wrong: requests with a cookie need the header X-CSRFToken")
    return Caller(user, scopes_of(user), "cookie", cookie=request.session.session_key or "")
