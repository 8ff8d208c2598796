"""Who stands at the door, by the credential of an account: a personal token, the gateway token, or a browser's sign-in.

Devices, which sign for themselves, are looked at in `device_admission`, after this.
"""

import logging
from dataclasses import dataclass, replace

from clawsite.accounts import tokens
from clawsite.accounts.sign_in import throttle
from clawsite.gateway.auth.authority import AccountAccess, Credential, read_access
from clawsite.gateway.auth.refusals import HandshakeRejected, reject_unauthorized
from clawsite.gateway.devices.tokens import is_device_token
from clawsite.gateway.devices.tokens import record_device_use as note_device
from clawsite.gateway.protocol.frames import ConnectParams
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable
from sessions_app.keys import make_main_key
from sessions_app.models import Session, SessionMember

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandshakeInfo:
    """What the upgrade request says about who is there."""

    origin: str | None
    cookie: str  # of a browser's sign-in, "" without one
    address: str
    local: bool = False  # from this host, and not through a proxy


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """Somebody who may come in, and what is read about them in the same go."""

    credential: Credential
    standing: AccountAccess
    main_session_id: str | None = None
    member_of: tuple[str, ...] = ()
    unnoted: bool = False  # that its token or device is used should be written down
    fingerprint: str = ""  # of its device
    device_token: str | None = None  # handed out now, for hello-ok


async def authenticate_account(params: ConnectParams, knock: HandshakeInfo) -> AuthenticatedClient:
    """A client without a device: its credential is all there is. Refused when there is none, or not a good one."""
    if known := await authenticate_credential(params, knock):
        return known
    if read_secret(params):
        words = "a device token counts only together with the signature of its device"
        raise reject_unauthorized(words, "AUTH_DEVICE_TOKEN_MISMATCH")
    raise reject_unauthorized("sign in, or connect with a token", "AUTH_REQUIRED")


async def authenticate_credential(params: ConnectParams, knock: HandshakeInfo) -> AuthenticatedClient | None:
    """None where no account's credential was sent, but perhaps a device token, which only its device can make good."""
    secret = (params.auth.token or params.auth.password or "") if params.auth else ""
    operator = params.role == "operator"
    if secret and not is_device_token(secret):
        try:
            found = await db.read(_authenticate_secret, secret, knock.address, operator)
        except Unavailable as error:
            raise to_throttled_error(error) from error
        if found is None:
            await db.write(throttle.record_failure, knock.address)
            raise reject_unauthorized("the token is wrong, expired or revoked", "AUTH_TOKEN_MISMATCH")
        return found
    # Without an Origin nobody can say that it was a page of ours that sent the cookie.
    if knock.cookie and knock.origin is not None and not read_secret(params):
        return await db.read(_authenticate_cookie, knock.cookie, operator)
    return None


def read_secret(params: ConnectParams) -> str:
    """Whatever was sent. A device token may stand in the place of an account's, or in its own."""
    return (params.auth.token or params.auth.password or params.auth.device_token or "") if params.auth else ""


def to_throttled_error(error: Unavailable) -> Unavailable | HandshakeRejected:
    """Failures before this one: told as OpenClaw's clients know it. Anything else stays what it is."""
    if (error.details or {}).get("code") != "AUTH_RATE_LIMITED":
        return error
    return reject_unauthorized(error.message, "AUTH_RATE_LIMITED", retry_after_ms=error.retry_after_ms)


def _authenticate_secret(secret: str, address: str, operator: bool) -> AuthenticatedClient | None:
    throttle.check(address)
    principal = tokens.find_principal(secret)
    if principal is None:
        return None
    credential = Credential(principal.kind, token_id=principal.token_id or 0)
    known = AuthenticatedClient(credential, AccountAccess.of(principal.user, principal.scopes), unnoted=principal.unnoted)
    return load_sessions(known) if operator else known


def _authenticate_cookie(cookie: str, operator: bool) -> AuthenticatedClient | None:
    credential = Credential("cookie", cookie=cookie)
    standing = read_access(credential)
    known = AuthenticatedClient(credential, standing) if standing else None
    return load_sessions(known) if known and operator else known


def load_sessions(known: AuthenticatedClient) -> AuthenticatedClient:
    """For people; a node has no sessions."""
    user = known.standing.user
    main = Session.objects.filter(owner=user, key=make_main_key(), deleted_at__isnull=True)
    session_id = main.values_list("generation_id", flat=True).first()
    member_of = SessionMember.objects.filter(user=user).values_list("session_id", flat=True)
    return replace(known, main_session_id=str(session_id) if session_id else None, member_of=tuple(str(pk) for pk in member_of))


async def record_use(known: AuthenticatedClient, address: str) -> None:
    """A task of its own: the client does not wait for it, and a database that cannot be written keeps nobody out."""
    credential = known.credential
    try:
        # The keys sort behind those of sessions: two processes that commit several of these take their locks in one order.
        if credential.device:
            token = credential.token_id if credential.kind == "device-token" else 0
            await db.write(note_device, credential.device, token, address, key=f"device {known.fingerprint}")
        if credential.kind == "api-token":
            await db.write(tokens.record_use, credential.token_id, key=f"token {credential.token_id}")
    except ClawError as error:
        log.warning("the use of token %d could not be noted: %s", credential.token_id, error.message)
