"""The first request of a socket: which protocol, who is it, from where, and what is it told in return.

The checks come in the order OpenClaw makes them: frame, method, parameters, protocol, role, origin, credential.
"""

import logging
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from pydantic import ValidationError

from clawsite.accounts import throttle, tokens
from clawsite.gateway import events, limits, registry
from clawsite.gateway.authority import Authority, Credential, Standing, standing_of
from clawsite.gateway.connection import Connection
from clawsite.gateway.errors import Close, error_shape
from clawsite.gateway.frames import NEWEST, ConnectParams, Request, choose_protocol, complaint, dialect_of
from clawsite.gateway.line import Line
from clawsite.gateway.runtime import Runtime
from clawsite.gateway.scopes import wanted_scopes
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError, InvalidRequest, Unavailable
from sessions_app.keys import DEFAULT_AGENT, main_key
from sessions_app.models import Session, SessionMember

log = logging.getLogger(__name__)

SCOPED_EVENTS = "session-scoped-events"


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody whose credential is good, and what is read about them in the same go."""

    credential: Credential
    standing: Standing
    main_session_id: str | None
    member_of: list[str]
    unnoted: bool  # the use of its token should be written down


@dataclass(frozen=True, slots=True)
class Knock:
    """What the upgrade request says about who is there."""

    origin: str | None
    cookie: str  # of a browser's sign-in, "" without one
    address: str


class Refused(Exception):
    """The handshake ends here."""

    def __init__(self, message: str, *, close: Close = Close.POLICY, error: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.error = error or error_shape(InvalidRequest.code, message)
        self.close = close
        self.reason = message


@dataclass(frozen=True, slots=True)
class Shaken:
    connection: Connection
    hello: dict[str, Any]
    member_of: list[str]


async def shake_hands(line: Line, request: Request, knock: Knock, runtime: Runtime) -> Shaken:
    """Take a client in. Refused says what to answer and how to close."""
    params = _connect_params(request)
    protocol = choose_protocol(params.min_protocol, params.max_protocol)
    if protocol is None:
        details = {"code": "PROTOCOL_MISMATCH", "expectedProtocol": NEWEST}
        raise Refused(
            "protocol mismatch", close=Close.PROTOCOL, error=error_shape(InvalidRequest.code, "protocol mismatch", details=details)
        )
    if params.role != "operator":
        raise Refused(f"invalid role: {params.role[:40]}")
    _check_origin(params, knock)
    try:
        known = await _authenticate(params, knock)
        health = await runtime.health()
        await runtime.look_at_epoch()
    except ClawError as error:  # the database is away, or was never prepared
        shape = error_shape(Unavailable.code, error.message, retryable=True, retry_after_ms=error.retry_after_ms or 1000)
        raise Refused(error.message, close=Close.TRY_LATER, error=shape) from error
    connection = Connection(
        line=line,
        client=params.client,
        authority=Authority(known.credential, known.standing, wanted_scopes(params.scopes), look=runtime.look),
        protocol=protocol,
        dialect=dialect_of(protocol),
        caps=frozenset(params.caps),
        connected_ms=clock.now_ms(),
        locale=params.locale or "",
        scoped=SCOPED_EVENTS in params.caps,
    )
    if known.unnoted:
        runtime.spawn(_note_use(known.credential.token_id))
    return Shaken(connection, _hello(connection, runtime, health, known.main_session_id), known.member_of)


def _connect_params(request: Request) -> ConnectParams:
    if request.method != "connect":
        raise Refused("first request must be connect")
    try:
        return ConnectParams.model_validate(request.params or {})
    except ValidationError as error:
        raise Refused(f"invalid connect params: {complaint(error)}") from error


def _check_origin(params: ConnectParams, knock: Knock) -> None:
    """Scheme, host and port must be one of ours. Programs send no Origin; they must then bring a token, not a cookie."""
    if knock.origin is None and _secret(params):
        return
    if knock.origin not in settings.ALLOWED_ORIGINS:
        details = {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"} if knock.origin is not None else {"code": "AUTH_REQUIRED"}
        words = (
            "origin not allowed; add it to CLAWSITE_ORIGINS" if knock.origin is not None else "unauthorized: a token is required"
        )
        raise Refused(words, error=error_shape(InvalidRequest.code, words, details=details))


def _secret(params: ConnectParams) -> str:
    return (params.auth.token or params.auth.password or "") if params.auth else ""


async def _authenticate(params: ConnectParams, knock: Knock) -> Known:
    secret = _secret(params)
    if secret:
        try:
            found = await db.read(_by_secret, secret, knock.address)
        except Unavailable as error:
            if (error.details or {}).get("code") != "AUTH_RATE_LIMITED":
                raise
            raise _unauthorized(error.message, "AUTH_RATE_LIMITED", retry_after_ms=error.retry_after_ms) from error
        if found is None:
            await db.write(throttle.failed, knock.address)
            raise _unauthorized("the token is wrong, expired or revoked", "AUTH_TOKEN_MISMATCH")
        return found
    found = await db.read(_by_cookie, knock.cookie) if knock.cookie else None
    if found is None:
        raise _unauthorized("sign in, or connect with a token", "AUTH_REQUIRED")
    return found


def _unauthorized(why: str, code: str, *, retry_after_ms: int | None = None) -> Refused:
    message = f"unauthorized: {why}"
    shape = error_shape(
        InvalidRequest.code, message, details={"code": code}, retryable=retry_after_ms is not None, retry_after_ms=retry_after_ms
    )
    return Refused(message, error=shape)


def _by_secret(secret: str, address: str) -> Known | None:
    throttle.check(address)
    principal = tokens.principal_for(secret)
    if principal is None:
        return None
    credential = Credential(principal.kind, token_id=principal.token_id or 0)
    return _known(credential, Standing.of(principal.user, principal.scopes), unnoted=principal.unnoted)


def _by_cookie(cookie: str) -> Known | None:
    credential = Credential("cookie", cookie=cookie)
    standing = standing_of(credential)
    return _known(credential, standing) if standing else None


def _known(credential: Credential, standing: Standing, *, unnoted: bool = False) -> Known:
    main = Session.objects.filter(owner=standing.user, key=main_key(), deleted_at__isnull=True)
    session_id = main.values_list("generation_id", flat=True).first()
    member_of = SessionMember.objects.filter(user=standing.user).values_list("session_id", flat=True)
    return Known(credential, standing, str(session_id) if session_id else None, [str(pk) for pk in member_of], unnoted)


async def _note_use(token_id: int) -> None:
    """A task of its own: the client does not wait for it, and a database that cannot be written keeps nobody out."""
    try:
        # The key sorts behind those of sessions: two processes that commit several of these take their locks in one order.
        await db.write(tokens.note_use, token_id, key=f"token {token_id}")
    except ClawError as error:
        log.warning("the use of token %d could not be noted: %s", token_id, error.message)


def _hello(connection: Connection, runtime: Runtime, health: dict[str, Any], session_id: str | None) -> dict[str, Any]:
    """One answer for all protocols: what one of them does not know it passes over."""
    scopes = sorted(connection.authority.scopes)
    return {
        "type": "hello-ok",
        "protocol": connection.protocol,
        "version": runtime.version,
        "server": {"version": runtime.version, "connId": connection.id, "bootId": runtime.process},
        "features": {"methods": ["connect", *sorted(registry.methods())], "events": sorted(events.EVENTS)},
        "snapshot": {
            "presence": runtime.presence.entries() if connection.authority.may_read else [],
            "health": health,
            "stateVersion": runtime.versions.wire(),
            "epoch": runtime.epoch,
            "uptimeMs": runtime.uptime_ms,
            "sessionDefaults": {
                "defaultAgentId": DEFAULT_AGENT,
                "mainKey": "main",
                "mainSessionKey": main_key(),
                "scope": "per-sender",
            },
        },
        "auth": {"role": "operator", "scopes": scopes},
        "policy": {
            "maxPayload": limits.FRAME_BYTES,
            "maxBufferedBytes": limits.BUFFERED_BYTES,
            "tickIntervalMs": int(limits.TICK_SECONDS * 1000),
        },
        "caps": sorted(connection.caps),
        "permissions": dict.fromkeys(scopes, True),
        "session": {"sessionId": session_id, "sessionKey": main_key()},
    }
