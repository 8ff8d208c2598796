"""The caller's access tokens over REST: list, create, revoke.

A token can create another one with at most its own scopes and expiration. The new token is revoked together with its parent
and can't create tokens itself. The gateway token, which every program on the host can read, can't create tokens.
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
    """`prefix` is the public part, to recognize the token. `madeWith` is the ID of its parent token; both are revoked together."""

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
    """`secret` is only returned here."""

    secret: str


class TokenBody(Params):
    """Scopes that the caller doesn't have are ignored. `expiresAt` is in milliseconds since 1970; the default is in 90 days."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_at: int | None = Field(None, ge=1, lt=253_402_300_800_000)  # the year 10000, which dates can't represent


@router.get("/tokens", response=Page[TokenOut], auth=RequireScope(Scope.READ))
async def list_tokens(request: ApiRequest, limit: Limit = 50, cursor: CursorText = "") -> Any:
    """List your tokens, newest first, including expired and revoked ones."""
    return await db.read(_page, request.auth.user, decode_cursor(cursor, parse_number), limit)


def _page(user: User, position: list[Any] | None, limit: int) -> Page[TokenOut]:
    own_tokens = AccessToken.objects.filter(user=user).order_by("-pk")
    rows = list((own_tokens.filter(pk__lt=position[0]) if position else own_tokens)[: limit + 1])
    next_cursor = encode_cursor(rows[limit - 1].pk) if len(rows) > limit else None
    return {"items": [_to_wire(row) for row in rows[:limit]], "next": next_cursor}


@router.post("/tokens", response={201: NewToken}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def make_token(request: ApiRequest, body: TokenBody) -> Any:
    """Create a token for your account. In a browser, this requires a recently confirmed password."""
    if request.auth.kind == "cookie" and not await db.read(recent_password.is_recent, request.session):
        raise recent_password.confirmation_required()
    return await db.write(_create_token, request.auth, body, alone=True)


def _create_token(caller: Caller, body: TokenBody) -> NewToken:
    _check_may_manage(caller)
    expires_at = datetime.fromtimestamp(body.expires_at / 1000, UTC) if body.expires_at else None
    parent = AccessToken.objects.get(pk=caller.token_id) if caller.token_id else None
    with acting_as(lambda: actor.actor_for_user(caller.user)):
        scopes = [str(scope) for scope in body.scopes if scope.value in caller.scopes]
        token, secret = tokens.issue_token(caller.user, body.name, scopes, expires_at, made_with=parent)
    return NewToken(**_to_wire(token), secret=secret)


@router.delete("/tokens/{token}", response={204: None}, auth=RequireScope(Scope.WRITE, limited=LimitedTokenRule.REFUSED))
async def revoke_token(request: ApiRequest, token: Annotated[int, Path(ge=1, lt=2**53)]) -> Any:
    """Revoke one of your tokens. Programs that use it are disconnected."""
    await db.write(_revoke_token, request.auth, token, alone=True)
    return Status(204, None)


def _revoke_token(caller: Caller, token: int) -> None:
    _check_may_manage(caller)
    own_token = AccessToken.objects.filter(pk=token, user=caller.user).first()
    if own_token is None:
        raise NotFound(f"you have no token {token}")
    with acting_as(lambda: actor.actor_for_user(caller.user)):
        tokens.revoke_token(own_token)


def _check_may_manage(caller: Caller) -> None:
    if caller.kind == "gateway-token":
        raise Forbidden("the gateway token can't create or revoke tokens; sign in, or use an account's access token")


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
