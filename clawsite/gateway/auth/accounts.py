"""Who stands at the door, by the credential of an account: a personal token, the gateway token, or a browser's sign-in.

Devices, which sign for themselves, are looked at in `device_admission`, after this.
"""

import logging
from dataclasses import dataclass, replace

from clawsite.accounts import tokens
from clawsite.accounts.sign_in import throttle
from clawsite.gateway.auth.authority import Credential, Standing, standing_of
from clawsite.gateway.auth.refusals import Refused, unauthorized
from clawsite.gateway.devices.tokens import is_device_token
from clawsite.gateway.devices.tokens import note_use as note_device
from clawsite.gateway.protocol.frames import ConnectParams
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable
from sessions_app.keys import main_key
from sessions_app.models import Session, SessionMember

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Knock:
    """What the upgrade request says about who is there."""

    origin: str | None
    cookie: str  # of a browser's sign-in, "" without one
    address: str
    local: bool = False  # from this host, and not through a proxy


@dataclass(frozen=True, slots=True)
class Known:
    """Somebody who may come in, and what is read about them in the same go."""

    credential: Credential
    standing: Standing
    main_session_id: str | None = None
    member_of: tuple[str, ...] = ()
    unnoted: bool = False  # that its token or device is used should be written down
    fingerprint: str = ""  # of its device
    device_token: str | None = None  # handed out now, for hello-ok


async def admit_account(params: ConnectParams, knock: Knock) -> Known:
    """A client without a device: its credential is all there is. Refused when there is none, or not a good one."""
    if known := await by_credential(params, knock):
        return known
    if sent_secret(params):
        words = "a device token counts only together with the signature of its device"
        raise unauthorized(words, "AUTH_DEVICE_TOKEN_MISMATCH")
    raise unauthorized("sign in, or connect with a token", "AUTH_REQUIRED")


async def by_credential(params: ConnectParams, knock: Knock) -> Known | None:
    """None where no account's credential was sent, but perhaps a device token, which only its device can make good."""
    secret = (params.auth.token or params.auth.password or "") if params.auth else ""
    operator = params.role == "operator"
    if secret and not is_device_token(secret):
        try:
            found = await db.read(_by_secret, secret, knock.address, operator)
        except Unavailable as error:
            raise slow_down(error) from error
        if found is None:
            await db.write(throttle.failed, knock.address)
            raise unauthorized("the token is wrong, expired or revoked", "AUTH_TOKEN_MISMATCH")
        return found
    # Without an Origin nobody can say that it was a page of ours that sent the cookie.
    if knock.cookie and knock.origin is not None and not sent_secret(params):
        return await db.read(_by_cookie, knock.cookie, operator)
    return None


def sent_secret(params: ConnectParams) -> str:
    """Whatever was sent. A device token may stand in the place of an account's, or in its own."""
    return (params.auth.token or params.auth.password or params.auth.device_token or "") if params.auth else ""


def slow_down(error: Unavailable) -> Unavailable | Refused:
    """Failures before this one: told as OpenClaw's clients know it. Anything else stays what it is."""
    if (error.details or {}).get("code") != "AUTH_RATE_LIMITED":
        return error
    return unauthorized(error.message, "AUTH_RATE_LIMITED", retry_after_ms=error.retry_after_ms)


def _by_secret(secret: str, address: str, operator: bool) -> Known | None:
    throttle.check(address)
    principal = tokens.principal_for(secret)
    if principal is None:
        return None
    credential = Credential(principal.kind, token_id=principal.token_id or 0)
    known = Known(credential, Standing.of(principal.user, principal.scopes), unnoted=principal.unnoted)
    return with_sessions(known) if operator else known


def _by_cookie(cookie: str, operator: bool) -> Known | None:
    credential = Credential("cookie", cookie=cookie)
    standing = standing_of(credential)
    known = Known(credential, standing) if standing else None
    return with_sessions(known) if known and operator else known


def with_sessions(known: Known) -> Known:
    """For people; a node has no sessions."""
    user = known.standing.user
    main = Session.objects.filter(owner=user, key=main_key(), deleted_at__isnull=True)
    session_id = main.values_list("generation_id", flat=True).first()
    member_of = SessionMember.objects.filter(user=user).values_list("session_id", flat=True)
    return replace(known, main_session_id=str(session_id) if session_id else None, member_of=tuple(str(pk) for pk in member_of))


async def note_use(known: Known, address: str) -> None:
    """A task of its own: the client does not wait for it, and a database that cannot be written keeps nobody out."""
    credential = known.credential
    try:
        # The keys sort behind those of sessions: two processes that commit several of these take their locks in one order.
        if credential.device:
            token = credential.token_id if credential.kind == "device-token" else 0
            await db.write(note_device, credential.device, token, address, key=f"device {known.fingerprint}")
        if credential.kind == "api-token":
            await db.write(tokens.note_use, credential.token_id, key=f"token {credential.token_id}")
    except ClawError as error:
        log.warning("the use of token %d could not be noted: %s", credential.token_id, error.message)
