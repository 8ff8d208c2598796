"""The events about devices and nodes: shapes only. The table of all events is in events.py."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class PairRequested(TypedDict):
    """A device asks to be known. Sent to those who may decide about it: who may pair devices, for this account."""

    requestId: str
    deviceId: str
    publicKey: str
    role: str
    roles: list[str]
    scopes: list[str]
    reason: Literal["not-paired", "role-upgrade", "scope-upgrade"]
    account: str | None  # whose credential came with it
    isRepair: bool
    ts: int
    expiresAtMs: int
    remoteIp: NotRequired[str]
    displayName: NotRequired[str]
    platform: NotRequired[str]
    deviceFamily: NotRequired[str]
    modelIdentifier: NotRequired[str]
    clientId: NotRequired[str]
    clientMode: NotRequired[str]
    version: NotRequired[str]
    commands: NotRequired[list[str]]  # of a node, as the rest
    caps: NotRequired[list[str]]
    permissions: NotRequired[dict[str, bool]]
    pathEnv: NotRequired[str]


class NodePairRequested(PairRequested):
    """The same, when the device asks to be a node."""

    nodeId: str


class PairResolved(TypedDict):
    """Somebody has decided."""

    requestId: str
    deviceId: str
    decision: Literal["approved", "rejected"]
    ts: int


class NodePairResolved(PairResolved):
    """The same about a node."""

    nodeId: str


class InvokeRequest(TypedDict):
    """For a node only: what it is asked to do. It answers with `node.invoke.result` and the same id. It is sent once."""

    id: str
    nodeId: str
    command: str
    timeoutMs: int
    idempotencyKey: str
    paramsJSON: NotRequired[str]


class NodeBroadcast(TypedDict):
    """For nodes only: something that their owner tells them. Nobody waits for an answer."""

    event: str
    ts: int
    payloadJSON: NotRequired[str]
    idempotencyKey: NotRequired[str]


class NodeEvent(TypedDict):
    """Something a node reports by itself. Sent to its owner's connections that are there; it is not stored."""

    nodeId: str
    event: str
    payload: Any
    ts: int
