"""Payload types of events about devices and nodes. `event_catalog` lists all events."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict


class PairRequested(TypedDict):
    """A device requests pairing. Sent to users who may decide about it: those who may pair devices for this account."""

    requestId: str
    deviceId: str
    publicKey: str
    role: str
    roles: list[str]
    scopes: list[str]
    reason: Literal["not-paired", "role-upgrade", "scope-upgrade"]
    account: str | None  # whose credentials the device presented
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
    commands: NotRequired[list[str]]  # this and the following are for nodes only
    caps: NotRequired[list[str]]
    permissions: NotRequired[dict[str, bool]]
    pathEnv: NotRequired[str]


class NodePairRequested(PairRequested):
    """A device requests pairing as a node."""

    nodeId: str


class PairResolved(TypedDict):
    """A pairing request was approved or denied."""

    requestId: str
    deviceId: str
    decision: Literal["approved", "rejected"]
    ts: int


class NodePairResolved(PairResolved):
    """A node's pairing request was approved or denied."""

    nodeId: str


class InvokeRequest(TypedDict):
    """For nodes only: a command to run. The node responds with `node.invoke.result` and the same ID. It is sent once."""

    id: str
    nodeId: str
    command: str
    timeoutMs: int
    idempotencyKey: str
    paramsJSON: NotRequired[str]


class NodeBroadcast(TypedDict):
    """For nodes only: a message from their owner. No response is expected."""

    event: str
    ts: int
    payloadJSON: NotRequired[str]
    idempotencyKey: NotRequired[str]


class NodeEvent(TypedDict):
    """An event reported by a node. Sent to its owner's current connections; it is not stored."""

    nodeId: str
    event: str
    payload: Any
    ts: int
