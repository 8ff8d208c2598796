"""Authenticate a connection by account credential: an access token, the gateway token, or a browser's session cookie.

`auth.devices` then checks devices, which have their own signatures.
"""

import logging
from dataclasses import dataclass, replace

from clawsite.accounts import tokens
from clawsite.accounts.sign_in import throttle
from clawsite.gateway.auth.authority import AccountAccess, Credential, read_access
from clawsite.gateway.auth.refusals import HandshakeRejected, reject_unauthorized
from clawsite.gateway.devices.tokens import is_device_token, record_device_use
from clawsite.gateway.protocol.frames import ConnectParams
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable
from sessions_app.keys import make_main_key
from sessions_app.models import Session, SessionMember

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandshakeInfo:
    """What the upgrade request reveals about the client."""

    origin: str | None
    cookie: str  # the browser's session cookie, "" if none
    address: str
    local: bool = False  # from this host and not through a proxy


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """An authenticated client and what was read about it in the same query."""

    credential: Credential
    access: AccountAccess
    main_session_id: str | None = None
    member_of: tuple[str, ...] = ()
    use_unrecorded: bool = False  # the last use of its token or device should be recorded
    fingerprint: str = ""  # of its device, "" if none
    device_token: str | None = None  # newly issued, sent in hello-ok


async def authenticate_account(params: ConnectParams, handshake: HandshakeInfo) -> AuthenticatedClient:
    """Authenticate a client without a device. Reject it if its credential is missing or invalid."""
    if client := await authenticate_credential(params, handshake):
        return client
    if read_secret(params):
        message = "a device token is only valid with its device's signature"
        raise reject_unauthorized(message, "AUTH_DEVICE_TOKEN_MISMATCH")
    raise reject_unauthorized("sign in, or connect with a token", "AUTH_REQUIRED")


async def authenticate_credential(params: ConnectParams, handshake: HandshakeInfo) -> AuthenticatedClient | None:
    """Return None if no account credential was sent. A device token doesn't count: it is only valid with its device."""
    secret = (params.auth.token or params.auth.password or "") if params.auth else ""
    operator = params.role == "operator"
    if secret and not is_device_token(secret):
        try:
            client = await db.read(_authenticate_secret, secret, handshake.address, operator)
        except Unavailable as error:
            raise to_throttled_error(error) from error
        if client is None:
            await db.write(throttle.record_failure, handshake.address)
            raise reject_unauthorized("the token is invalid, expired or revoked", "AUTH_TOKEN_MISMATCH")
        return client
    # Without an Origin header, the cookie may come from a page of another site.
    if handshake.cookie and handshake.origin is not None and not read_secret(params):
        return await db.read(_authenticate_cookie, handshake.cookie, operator)
    return None


def read_secret(params: ConnectParams) -> str:
    """Return the secret that was sent. A device token may be in its own field or in the one for account tokens."""
    return (params.auth.token or params.auth.password or params.auth.device_token or "") if params.auth else ""


def to_throttled_error(error: Unavailable) -> Unavailable | HandshakeRejected:
    """Convert a throttling error to the form OpenClaw's clients expect. Return other errors unchanged."""
    if (error.details or {}).get("code") != "AUTH_RATE_LIMITED":
        return error
    return reject_unauthorized(error.message, "AUTH_RATE_LIMITED", retry_after_ms=error.retry_after_ms)


def _authenticate_secret(secret: str, address: str, operator: bool) -> AuthenticatedClient | None:
    throttle.check(address)
    principal = tokens.find_principal(secret)
    if principal is None:
        return None
    credential = Credential(principal.kind, token_id=principal.token_id or 0)
    access = AccountAccess.for_user(principal.user, principal.scopes)
    client = AuthenticatedClient(credential, access, use_unrecorded=principal.use_unrecorded)
    return load_sessions(client) if operator else client


def _authenticate_cookie(cookie: str, operator: bool) -> AuthenticatedClient | None:
    credential = Credential("cookie", cookie=cookie)
    access = read_access(credential)
    client = AuthenticatedClient(credential, access) if access else None
    return load_sessions(client) if client and operator else client


def load_sessions(client: AuthenticatedClient) -> AuthenticatedClient:
    """Add the main session and memberships of an operator's account. Nodes have no sessions."""
    user = client.access.user
    main = Session.objects.filter(owner=user, key=make_main_key(), deleted_at__isnull=True)
    session_id = main.values_list("generation_id", flat=True).first()
    member_of = SessionMember.objects.filter(user=user).values_list("session_id", flat=True)
    return replace(client, main_session_id=str(session_id) if session_id else None, member_of=tuple(str(pk) for pk in member_of))


async def record_use(client: AuthenticatedClient, address: str) -> None:
    """Record the last use. Runs as a background task, so that clients can connect while the database is not writable."""
    credential = client.credential
    try:
        # These keys sort after session keys, so that processes committing several of them lock in the same order.
        if credential.device:
            token = credential.token_id if credential.kind == "device-token" else 0
            await db.write(record_device_use, credential.device, token, address, key=f"device {client.fingerprint}")
        if credential.kind == "api-token":
            await db.write(tokens.record_use, credential.token_id, key=f"token {credential.token_id}")
    except ClawError as error:
        log.warning("could not record the use of token %d: %s", credential.token_id, error.message)
