"""One's own access tokens over REST: which there are, a new one, and the end of one.

A token can make another one only as far as it reaches itself: with no other scopes, and for no longer; and that one ends with it
and makes none itself. The gateway token, which any program on the host has, makes none.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from ninja import Path, Router
from ninja.responses import Status
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts import tokens
from clawsite.accounts.models import AccessToken, User
from clawsite.accounts.sign_in import recent_password
from clawsite.api.http.authentication import Caller
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_number
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.params import Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import clock, db
from clawsite.infra.audit import actor
from clawsite.infra.audit.actor import acting_as
from clawsite.infra.errors import Forbidden, NotFound

router = Router(tags=["tokens"])


class TokenOut(TypedDict):
    """`prefix` is the public part, to recognise it by. `madeWith` is the id of the token that it was made with, and ends with."""

    id: int
    name: str
    prefix: str
    scopes: list[str]
    createdAt: int
    expiresAt: int
    lastUsedAt: int | None
    revokedAt: int | None
    madeWith: int | None


class NewToken(TokenOut):
    """`secret` is told here and never again."""

    secret: str


class TokenBody(Params):
    """Asking for more scopes than one has yields what one has. `expiresAt` in milliseconds since 1970; left out: in 90 days."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_at: int | None = Field(None, ge=1, lt=253_402_300_800_000)  # the year 10000, where dates end


@router.get("/tokens", response=Page[TokenOut], auth=RequireScope(Scope.READ))
async def list_tokens(request: ApiRequest, limit: Limit = 50, cursor: CursorText = "") -> Any:
    """One's own, newest first, also those that have ended."""
    return await db.read(_page, request.auth.user, decode_cursor(cursor, parse_number), limit)


def _page(user: User, place: list[Any] | None, limit: int) -> Page[TokenOut]:
    found = AccessToken.objects.filter(user=user).order_by("-pk")
    rows = list((found.filter(pk__lt=place[0]) if place else found)[: limit + 1])
    following = encode_cursor(rows[limit - 1].pk) if len(rows) > limit else None
    return {"items": [_to_wire(row) for row in rows[:limit]], "next": following}


@router.post("/tokens", response={201: NewToken}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def make_token(request: ApiRequest, body: TokenBody) -> Any:
    """A new token of one's own account. A browser makes one only soon after the password was typed."""
    if request.auth.kind == "cookie" and not await db.read(recent_password.is_recent, request.session):
        raise recent_password.confirmation_required()
    return await db.write(_create_token, request.auth, body, alone=True)


def _create_token(caller: Caller, body: TokenBody) -> NewToken:
    _check_may_manage(caller)
    ends = datetime.fromtimestamp(body.expires_at / 1000, UTC) if body.expires_at else None
    first = AccessToken.objects.get(pk=caller.token_id) if caller.token_id else None
    with acting_as(lambda: actor.actor_for_user(caller.user)):
        scopes = [str(scope) for scope in body.scopes if scope.value in caller.scopes]
        token, secret = tokens.issue_token(caller.user, body.name, scopes, ends, made_with=first)
    return NewToken(**_to_wire(token), secret=secret)


@router.delete("/tokens/{token}", response={204: None}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def revoke_token(request: ApiRequest, token: Annotated[int, Path(ge=1, lt=2**53)]) -> Any:
    """End one of one's own tokens for good. What used it is cut off."""
    await db.write(_revoke_token, request.auth, token, alone=True)
    return Status(204, None)


def _revoke_token(caller: Caller, token: int) -> None:
    _check_may_manage(caller)
    found = AccessToken.objects.filter(pk=token, user=caller.user).first()
    if found is None:
        raise NotFound(f"you have no token {token}")
    with acting_as(lambda: actor.actor_for_user(caller.user)):
        tokens.revoke_token(found)


def _check_may_manage(caller: Caller) -> None:
    if caller.kind == "gateway-token":
        raise Forbidden("the gateway token makes and ends no tokens; sign in, or use a token of an account")


def _to_wire(token: AccessToken) -> TokenOut:
    return TokenOut(
        id=token.pk,
        name=token.name,
        prefix=token.prefix,
        scopes=token.scopes,
        createdAt=clock.to_ms(token.created_at),
        expiresAt=clock.to_ms(token.expires_at),
        lastUsedAt=clock.to_ms(token.last_used_at) if token.last_used_at else None,
        revokedAt=clock.to_ms(token.revoked_at) if token.revoked_at else None,
        madeWith=token.made_with_id,
    )
