"""hello-ok and its form in each protocol. It is built once in full, then adapted to the client's dialect here. Pure."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from clawsite.gateway.protocol.event_catalog import Health
from clawsite.gateway.protocol.frames import Dialect
from sessions_app.sessions.attachments import MAX_INLINE_BYTES

# Supported OpenClaw capabilities. This one means that models.list reports whether each model is available.
CAPABILITIES = ("published-model-catalog",)
CLASSIC_ONLY = frozenset({"id", "key", "status", "capabilities"})


class HelloServer(TypedDict):
    version: str
    connId: str
    bootId: str


class Features(TypedDict):
    methods: list[str]
    events: list[str]
    capabilities: NotRequired[list[str]]


class StateVersion(TypedDict):
    presence: int
    health: int


class SessionDefaults(TypedDict):
    defaultAgentId: str
    mainKey: str
    mainSessionKey: str
    scope: Literal["per-sender"]


class Snapshot(TypedDict):
    presence: list[dict[str, Any]]
    health: Health
    stateVersion: StateVersion
    epoch: str
    uptimeMs: int
    sessionDefaults: SessionDefaults


class HelloAuth(TypedDict):
    role: Literal["operator", "node"]
    scopes: list[str]
    deviceToken: NotRequired[str]
    issuedAtMs: NotRequired[int]


class AttachmentLimits(TypedDict):
    maxBytes: int
    maxImageBytes: int


class HelloPolicy(TypedDict):
    maxPayload: int
    maxBufferedBytes: int
    tickIntervalMs: int
    attachments: NotRequired[AttachmentLimits]


class HelloSession(TypedDict):
    sessionId: str | None
    sessionKey: str


class HelloOk(TypedDict):
    """`hello-ok`: what the client may do, and the current state. A node gets no presence, and only `ok` of the health.

    Only protocol 1 has `version`, `caps`, `permissions` and `session`; it has neither `capabilities` in `features` nor
    `attachments` in `policy`. `auth` has a `deviceToken` if the device is issued one.
    """

    type: Literal["hello-ok"]
    protocol: int
    server: HelloServer
    features: Features
    snapshot: Snapshot
    auth: HelloAuth
    policy: HelloPolicy
    version: NotRequired[str]
    caps: NotRequired[list[str]]
    permissions: NotRequired[dict[str, bool]]
    session: NotRequired[HelloSession]


def hello_for_dialect(dialect: Dialect, hello: HelloOk) -> HelloOk:
    if dialect == "classic":
        return hello
    return HelloOk(
        type=hello["type"],
        protocol=hello["protocol"],
        server=hello["server"],
        features={**hello["features"], "capabilities": list(CAPABILITIES)},
        snapshot={**hello["snapshot"], "presence": to_wire_entries(hello["snapshot"]["presence"], dialect)},
        auth=hello["auth"],
        policy={**hello["policy"], "attachments": {"maxBytes": MAX_INLINE_BYTES, "maxImageBytes": MAX_INLINE_BYTES}},
    )


def to_wire_entries(entries: list[dict[str, Any]], dialect: Dialect) -> list[dict[str, Any]]:
    """Convert presence entries to the client's dialect. Protocols 3 and 4 don't have some of the properties."""
    if dialect == "classic":
        return entries
    return [{name: value for name, value in entry.items() if name not in CLASSIC_ONLY} for entry in entries]
