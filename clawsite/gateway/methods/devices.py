"""Methods for devices: list them and pending requests, approve, deny, remove, and manage their tokens.

Users manage their own devices, or all with the permission. A device's access is limited to that of the caller.
"""

from typing import Annotated, Literal, NotRequired

from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts import change_notices
from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.devices import pairing, tokens
from clawsite.gateway.devices.selectors import find_active_tokens, find_device, list_paired_devices, list_pending_requests
from clawsite.gateway.devices.shapes import DeviceFacts, to_device_facts
from clawsite.gateway.methods.recent_password import require_recent_password
from clawsite.gateway.models import DeviceToken
from clawsite.gateway.protocol.events.devices import PairRequested
from clawsite.gateway.protocol.frames import Command
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, Nothing, method
from clawsite.infra import clock, db
from clawsite.infra.errors import NotFound

DeviceId = Annotated[str, Field(min_length=1, max_length=64)]
Username = Annotated[str, Field(min_length=1, max_length=150)]


class PairList(TypedDict):
    """`pending` are requests of the last five minutes, `paired` the devices with their tokens, but without the secrets."""

    pending: list[PairRequested]
    paired: list[DeviceFacts]


@method("device.pair.list", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_list(call: Call, params: Nothing) -> PairList:
    """List pending pairing requests and paired devices."""
    return await db.read(lambda: PairList(pending=list_pending_requests(call.user), paired=list_paired_devices(call.user)))


class ByRequest(Params):
    request_id: Id


class ApproveParams(ByRequest):
    """`commands` are those declared commands that a node may be sent. Only those who manage all devices can set an `owner`."""

    owner: Username | None = None
    commands: list[Command] | None = Field(None, max_length=256)


class ApproveAnswer(TypedDict):
    requestId: str
    device: DeviceFacts


@method("device.pair.approve", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def pair_approve(call: Call, params: ApproveParams) -> ApproveAnswer:
    """Approve a device. It becomes yours, or that of the account whose credentials it presented. Idempotent.

    An operator device gets the scopes it requested, limited to those that its owner has and, if it becomes yours, to those of this
    connection. A node may be sent `commands`; by default, those it declares that can't affect its owner's machine or privacy.
    """
    return await approve_pairing(call, params)


async def approve_pairing(call: Call, params: ApproveParams, role: str = "") -> ApproveAnswer:
    await require_recent_password(call)
    return await db.write(_approve, call, params, role, alone=True)


def _approve(call: Call, params: ApproveParams, role: str) -> ApproveAnswer:
    owner = _find_account(params.owner) if params.owner is not None else None
    request = pairing.approve(
        params.request_id,
        by=call.user,
        ceiling=call.authority.scopes,
        owner=owner,
        commands=params.commands,
        role=role,
        access_token=_find_vouching_token(call),
    )
    device = request.device
    if device is None:
        raise NotFound(_("The device was removed."))
    return ApproveAnswer(requestId=str(request.pk), device=to_device_facts(device, find_active_tokens([device])[device.pk]))


def _find_account(name: str) -> User:
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise NotFound(_("User not found: %(username)s") % {"username": name})
    return user


def _find_vouching_token(call: Call) -> int | None:
    """Return this connection's access token; device tokens it creates depend on it. Limited tokens can't call these methods."""
    credential = call.authority.credential
    if credential.kind == "device-token":
        return DeviceToken.objects.get(pk=credential.token_id).made_with_id
    return credential.token_id if credential.kind == "api-token" else None


class RejectAnswer(TypedDict):
    requestId: str
    deviceId: str


@method("device.pair.reject", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_reject(call: Call, params: ByRequest) -> RejectAnswer:
    """Deny a pairing request. The device can request again."""
    return await reject_pairing(call, params)


async def reject_pairing(call: Call, params: ByRequest, role: str = "") -> RejectAnswer:
    request = await db.write(pairing.reject, params.request_id, by=call.user, role=role, alone=True)
    return RejectAnswer(requestId=str(request.pk), deviceId=request.fingerprint)


class ByDevice(Params):
    """`owner` selects the account if several have paired the same device; by default your own."""

    device_id: DeviceId
    owner: Username | None = None


class RemoveAnswer(TypedDict):
    deviceId: str


@method("device.pair.remove", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_remove(call: Call, params: ByDevice) -> RemoveAnswer:
    """Revoke a device and its tokens and close its sockets. It can't connect until it is approved again."""

    def remove() -> None:
        pairing.remove(find_device(call.user, params.device_id, params.owner), by=call.user)

    await db.write(remove, alone=True)
    return RemoveAnswer(deviceId=params.device_id)


class RenameParams(ByDevice):
    label: Annotated[str, Field(min_length=1, max_length=64)]


class RenameAnswer(TypedDict):
    deviceId: str
    label: str


@method("device.pair.rename", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def pair_rename(call: Call, params: RenameParams) -> RenameAnswer:
    """Rename a device. From then on, the name that the device reports is ignored."""

    def save() -> None:
        pairing.rename(find_device(call.user, params.device_id, params.owner), params.label, by=call.user)

    await db.write(save, alone=True)
    return RenameAnswer(deviceId=params.device_id, label=params.label)


class OfRole(ByDevice):
    role: Literal["operator", "node"]


class RotateParams(OfRole):
    """`scopes` can only reduce those of the token."""

    scopes: list[Annotated[str, Field(max_length=64)]] | None = Field(None, max_length=64)


class RotateAnswer(TypedDict):
    """`token` is the new secret if the device rotates its own token; other devices get theirs on the next connect."""

    deviceId: str
    role: str
    scopes: list[str]
    rotatedAtMs: int
    token: NotRequired[str]


@method("device.token.rotate", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def token_rotate(call: Call, params: RotateParams) -> AnswerWithFollowUp[RotateAnswer]:
    """Revoke a device's token and prepare another. Sockets that used the old one are closed after this response."""
    await require_recent_password(call)
    answer, owner = await db.write(_rotate, call, params, alone=True)

    async def close_the_others() -> None:
        await db.write(change_notices.notify_account_changed, owner)

    return AnswerWithFollowUp(answer, close_the_others)


def _rotate(call: Call, params: RotateParams) -> tuple[RotateAnswer, int]:
    device = find_device(call.user, params.device_id, params.owner)
    is_self = device.pk == call.connection.device_pk and params.role == call.connection.role
    scopes = None if params.scopes is None else frozenset(params.scopes)
    if is_self:  # a connection with fewer scopes than its token gets a token with fewer scopes
        scopes = call.authority.scopes if scopes is None else scopes & call.authority.scopes
    token = tokens.rotate_token(device, params.role, scopes, by=call.user, access_token=_find_vouching_token(call))
    answer = RotateAnswer(deviceId=device.fingerprint, role=token.role, scopes=token.scopes, rotatedAtMs=clock.now_ms())
    if is_self and (secret := tokens.issue_token(token)):
        answer["token"] = secret
    return answer, device.owner_id


class RevokeAnswer(TypedDict):
    deviceId: str
    role: str
    revokedAtMs: int


@method("device.token.revoke", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def token_revoke(call: Call, params: OfRole) -> RevokeAnswer:
    """Revoke a device's token. The device stays paired; a new token needs its owner's credentials or a new approval."""

    def revoke() -> RevokeAnswer:
        device = find_device(call.user, params.device_id, params.owner)
        token = tokens.revoke_token(device, params.role, by=call.user)
        return RevokeAnswer(deviceId=device.fingerprint, role=token.role, revokedAtMs=clock.now_ms())

    return await db.write(revoke, alone=True)
