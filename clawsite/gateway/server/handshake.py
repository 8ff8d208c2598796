"""The handshake: choose the protocol, check origin and credentials, and build hello-ok.

The checks are in OpenClaw's order: frame, method, parameters, protocol, role, origin, credential, device, pairing.
"""

from dataclasses import dataclass, replace

from django.conf import settings
from pydantic import ValidationError

from clawsite.gateway.auth.accounts import AuthenticatedClient, HandshakeInfo, authenticate_account, read_secret, record_use
from clawsite.gateway.auth.authority import Authority
from clawsite.gateway.auth.devices import authenticate_device
from clawsite.gateway.auth.refusals import HandshakeRejected
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.protocol import event_catalog, limits
from clawsite.gateway.protocol.errors import CloseCode, error_shape
from clawsite.gateway.protocol.event_catalog import Health
from clawsite.gateway.protocol.frames import (
    NEWEST_PROTOCOL,
    ConnectParams,
    Request,
    choose_protocol,
    dialect_of,
)
from clawsite.gateway.protocol.hello import HelloAuth, HelloOk, StateVersion
from clawsite.gateway.protocol.scopes import expand_scopes
from clawsite.gateway.server import registry
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import clock
from clawsite.infra.errors import ClawError, InvalidRequest, Unavailable
from clawsite.infra.validation import describe_first_error
from sessions_app.keys import DEFAULT_AGENT, make_main_key

SCOPED_EVENTS_CAP = "session-scoped-events"


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    connection: Connection
    hello: HelloOk
    member_of: tuple[str, ...]


async def perform_handshake(
    line: SocketWriter, request: Request, handshake: HandshakeInfo, runtime: Runtime, nonce: str
) -> HandshakeResult:
    """Admit a client, or raise HandshakeRejected with the error to send and the close code. `nonce` is that of its challenge."""
    params = _parse_connect_params(request)
    protocol = choose_protocol(params.min_protocol, params.max_protocol)
    if protocol is None:
        details = {"code": "PROTOCOL_MISMATCH", "expectedProtocol": NEWEST_PROTOCOL}
        raise HandshakeRejected(
            "protocol mismatch",
            close=CloseCode.PROTOCOL,
            error=error_shape(InvalidRequest.code, "protocol mismatch", details=details),
        )
    if params.role not in ("operator", "node"):
        raise HandshakeRejected(f"invalid role: {params.role[:40]}")
    handshake = _check_origin(params, handshake)
    try:
        if params.device is None and params.role == "operator":
            client = await authenticate_account(params, handshake)
        else:
            client = await authenticate_device(params, protocol, handshake, nonce)
        health = await runtime.health.get()
        await runtime.epoch.check()
    except ClawError as error:  # the database is unavailable or not migrated
        shape = error_shape(Unavailable.code, error.message, retryable=True, retry_after_ms=error.retry_after_ms or 1000)
        raise HandshakeRejected(error.message, close=CloseCode.TRY_LATER, error=shape) from error
    connection = Connection(
        line=line,
        client=params.client,
        authority=Authority(client.credential, client.access, expand_scopes(params.scopes), look=runtime.access.check),
        protocol=protocol,
        dialect=dialect_of(protocol),
        caps=frozenset(params.caps),
        connected_ms=clock.now_ms(),
        locale=params.locale or "",
        scoped=SCOPED_EVENTS_CAP in params.caps,
        device_id=client.fingerprint,
    )
    if client.use_unrecorded:
        runtime.host.spawn(record_use(client, handshake.address))
    return HandshakeResult(connection, _build_hello(connection, runtime, health, client), client.member_of)


def _parse_connect_params(request: Request) -> ConnectParams:
    if request.method != "connect":
        raise HandshakeRejected("first request must be connect")
    try:
        return ConnectParams.model_validate(request.params or {})
    except ValidationError as error:
        raise HandshakeRejected(f"invalid connect params: {describe_first_error(error)}") from error


def _check_origin(params: ConnectParams, handshake: HandshakeInfo) -> HandshakeInfo:
    """Check scheme, host and port of the Origin header. Programs send none; they must authenticate by token or device, not cookie.

    So must pages of other programs: the browser sends our cookie from them too, so it doesn't prove who wrote the page.
    """
    secret = bool(read_secret(params) or params.device or params.role == "node")
    if (handshake.origin is None and secret) or handshake.origin in settings.ALLOWED_ORIGINS:
        return handshake
    if handshake.origin in settings.CLIENT_ORIGINS and secret:
        return replace(handshake, cookie="")
    unknown = handshake.origin is not None and handshake.origin not in settings.CLIENT_ORIGINS
    details = {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED"} if unknown else {"code": "AUTH_REQUIRED"}
    advice = "add it to CLAWSITE_ORIGINS, or to CLAWSITE_CLIENT_ORIGINS if it is another program's page"
    message = f"origin not allowed; {advice}" if unknown else "unauthorized: a token is required"
    raise HandshakeRejected(message, error=error_shape(InvalidRequest.code, message, details=details))


def _build_hello(connection: Connection, runtime: Runtime, health: Health, client: AuthenticatedClient) -> HelloOk:
    """Build one response for all protocols; clients ignore fields they don't know. A node learns little about the server."""
    scopes = sorted(connection.authority.scopes)
    role = connection.role
    auth = HelloAuth(role=role, scopes=scopes)
    if client.device_token:
        auth |= {"deviceToken": client.device_token, "issuedAtMs": connection.connected_ms}
    return {
        "type": "hello-ok",
        "protocol": connection.protocol,
        "version": runtime.version,
        "server": {"version": runtime.version, "connId": connection.id, "bootId": runtime.process},
        "features": {"methods": ["connect", *registry.list_method_names(role)], "events": event_catalog.list_event_names(role)},
        "snapshot": {
            "presence": runtime.presence.entries() if connection.authority.may_read else [],
            "health": health if role == "operator" else {"ok": health.get("ok", False)},
            "stateVersion": StateVersion(presence=runtime.versions.presence, health=runtime.versions.health),
            "epoch": runtime.epoch.value,
            "uptimeMs": runtime.uptime_ms,
            "sessionDefaults": {
                "defaultAgentId": DEFAULT_AGENT,
                "mainKey": "main",
                "mainSessionKey": make_main_key(),
                "scope": "per-sender",
            },
        },
        "auth": auth,
        "policy": {
            "maxPayload": limits.MAX_FRAME_BYTES,
            "maxBufferedBytes": limits.MAX_BUFFERED_BYTES,
            "tickIntervalMs": int(limits.TICK_SECONDS * 1000),
        },
        "caps": sorted(connection.caps),
        "permissions": dict.fromkeys(scopes, True),
        "session": {"sessionId": client.main_session_id, "sessionKey": make_main_key()},
    }
