"""Devices over the socket: which there are, which wait, letting them in and putting them out, their tokens.

Somebody manages their own; with the right to manage everybody's, all. What a device may do is capped by what the caller has itself.
"""

from typing import Annotated, Literal, NotRequired

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
from clawsite.gateway.protocol.device_events import PairRequested
from clawsite.gateway.protocol.frames import Command
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, Nothing, method
from clawsite.infra import clock, db
from clawsite.infra.errors import NotFound

DeviceId = Annotated[str, Field(min_length=1, max_length=64)]
Username = Annotated[str, Field(min_length=1, max_length=150)]


class PairList(TypedDict):
    """`pending` are requests of the last five minutes, `paired` the devices, with their tokens but never the secrets."""

    pending: list[PairRequested]
    paired: list[DeviceFacts]


@method("device.pair.list", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_list(call: Call, params: Nothing) -> PairList:
    """Devices that wait to be let in, and those that are paired."""
    return await db.read(lambda: PairList(pending=list_pending_requests(call.user), paired=list_paired_devices(call.user)))


class ByRequest(Params):
    request_id: Id


class ApproveParams(ByRequest):
    """`commands` are those that a node may be sent, of those it declares; `owner` is whose it becomes, for who manages them all."""

    owner: Username | None = None
    commands: list[Command] | None = Field(None, max_length=256)


class ApproveAnswer(TypedDict):
    requestId: str
    device: DeviceFacts


@method("device.pair.approve", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def pair_approve(call: Call, params: ApproveParams) -> ApproveAnswer:
    """Let a device in. It becomes yours, or that of the account whose credential came with it. The same again is fine.

    An operator's device gets the scopes it asked for, of those that its owner has, and for yourself of those that this connection
    has. A node may be sent `commands`; without a choice, those it declares that do not reach into the machine or the life of who
    owns it.
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
        raise NotFound("the device was removed meanwhile")
    return ApproveAnswer(requestId=str(request.pk), device=to_device_facts(device, find_active_tokens([device])[device.pk]))


def _find_account(name: str) -> User:
    found = User.objects.filter(username=name, is_active=True).first()
    if found is None:
        raise NotFound(f"there is no account {name!r}")
    return found


def _find_vouching_token(call: Call) -> int | None:
    """The access token behind this connection: what it lets in, or renews, ends with it. One with limits never comes here."""
    credential = call.authority.credential
    if credential.kind == "device-token":
        return DeviceToken.objects.get(pk=credential.token_id).made_with_id
    return credential.token_id if credential.kind == "api-token" else None


class RejectAnswer(TypedDict):
    requestId: str
    deviceId: str


@method("device.pair.reject", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_reject(call: Call, params: ByRequest) -> RejectAnswer:
    """Leave a device out. It may ask again."""
    return await reject_pairing(call, params)


async def reject_pairing(call: Call, params: ByRequest, role: str = "") -> RejectAnswer:
    request = await db.write(pairing.reject, params.request_id, by=call.user, role=role, alone=True)
    return RejectAnswer(requestId=str(request.pk), deviceId=request.fingerprint)


class ByDevice(Params):
    """`owner` tells rows apart where several accounts know the same device; your own comes first."""

    device_id: DeviceId
    owner: Username | None = None


class RemoveAnswer(TypedDict):
    deviceId: str


@method("device.pair.remove", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_remove(call: Call, params: ByDevice) -> RemoveAnswer:
    """Revoke a device: its tokens end, its sockets are closed, and it stays out until somebody approves it again."""

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
    """Give a device a name, which it keeps whatever it calls itself."""

    def save() -> None:
        pairing.rename(find_device(call.user, params.device_id, params.owner), params.label, by=call.user)

    await db.write(save, alone=True)
    return RenameAnswer(deviceId=params.device_id, label=params.label)


class OfRole(ByDevice):
    role: Literal["operator", "node"]


class RotateParams(OfRole):
    """`scopes` can only be fewer than the token has."""

    scopes: list[Annotated[str, Field(max_length=64)]] | None = Field(None, max_length=64)


class RotateAnswer(TypedDict):
    """`token` is the new secret, told only to the device itself; any other device fetches its own when it connects next."""

    deviceId: str
    role: str
    scopes: list[str]
    rotatedAtMs: int
    token: NotRequired[str]


@method("device.token.rotate", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def token_rotate(call: Call, params: RotateParams) -> AnswerWithFollowUp[RotateAnswer]:
    """End a device's token and prepare another. Sockets that came with the old one are closed, after this answer."""
    await require_recent_password(call)
    answer, owner = await db.write(_rotate, call, params, alone=True)

    async def close_the_others() -> None:
        await db.write(change_notices.notify_account_changed, owner)

    return AnswerWithFollowUp(answer, close_the_others)


def _rotate(call: Call, params: RotateParams) -> tuple[RotateAnswer, int]:
    device = find_device(call.user, params.device_id, params.owner)
    itself = device.pk == call.connection.device_pk and params.role == call.connection.role
    kept = None if params.scopes is None else frozenset(params.scopes)
    if itself:  # it may have connected with less than its token has: then it asks with less, and gets less
        kept = call.authority.scopes if kept is None else kept & call.authority.scopes
    token = tokens.rotate_token(device, params.role, kept, by=call.user, access_token=_find_vouching_token(call))
    answer = RotateAnswer(deviceId=device.fingerprint, role=token.role, scopes=token.scopes, rotatedAtMs=clock.now_ms())
    if itself and (secret := tokens.issue_token(token)):
        answer["token"] = secret
    return answer, device.owner_id


class RevokeAnswer(TypedDict):
    deviceId: str
    role: str
    revokedAtMs: int


@method("device.token.revoke", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def token_revoke(call: Call, params: OfRole) -> RevokeAnswer:
    """End a device's token. The device stays paired: it gets another with its owner's credential, or after a new approval."""

    def revoke() -> RevokeAnswer:
        device = find_device(call.user, params.device_id, params.owner)
        token = tokens.revoke_token(device, params.role, by=call.user)
        return RevokeAnswer(deviceId=device.fingerprint, role=token.role, revokedAtMs=clock.now_ms())

    return await db.write(revoke, alone=True)
