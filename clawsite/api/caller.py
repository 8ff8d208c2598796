"""Who sends an HTTP request: a program with its token, or a page of ours with the session cookie and Django's CSRF token."""

from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware

from clawsite.accounts import throttle, tokens
from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.scopes import Scope, grants
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Forbidden

BEARER = "bearer "


class Unauthorized(ClawError):
    """No credential, or none that is good now."""

    code = "UNAUTHORIZED"
    http_status = 401


async def caller(request: HttpRequest, scope: Scope) -> User:
    """The account behind a request, if it has the scope. A token in the address counts for nothing: addresses are logged."""
    header = request.headers.get("Authorization", "")
    if header[: len(BEARER)].lower() == BEARER:
        user, scopes = await _of_token(header[len(BEARER) :].strip(), request)
    else:
        user, scopes = await db.read(_of_cookie, request)
    if not grants(scopes, scope):
        raise Forbidden(
            f"this needs the scope {scope.value}, which the account or its token does not have", details={"scope": scope.value}
        )
    return user


async def _of_token(secret: str, request: HttpRequest) -> tuple[User, frozenset[str]]:
    address = throttle.client_address(request.META.get("REMOTE_ADDR", ""), request.headers.get("X-Forwarded-For", ""))
    await db.read(throttle.check, address)
    principal = await db.read(tokens.principal_for, secret)
    if principal is None:
        await db.write(throttle.failed, address, alone=True)
        raise Unauthorized("the token is not known, was revoked or has expired")
    if principal.unnoted and principal.token_id:
        await db.write(tokens.note_use, principal.token_id, key=f"token {principal.token_id}")
    return principal.user, principal.scopes or frozenset()


_csrf = CsrfViewMiddleware(lambda _request: HttpResponse())


def _of_cookie(request: HttpRequest) -> tuple[User, frozenset[str]]:
    user = request.user
    if not isinstance(user, User):
        raise Unauthorized("send a token as `Authorization: Bearer …`, or sign in")
    if _csrf.process_view(request, None, (), {}) is not None:  # type: ignore[arg-type]  # it looks for an exemption of the view
        raise Forbidden("the CSRF token is missing or wrong: a request with a cookie needs the header X-CSRFToken")
    return user, scopes_of(user)
