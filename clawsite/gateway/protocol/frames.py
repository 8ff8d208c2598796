"""Protocol frames: parse requests, encode responses and events. Pure: no Django.

One JSON object per WebSocket text frame. Clients of protocol 1 use the classic dialect, clients of 3 and 4 the modern one; the
frames only differ in `stateVersion` and in some payload properties.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from clawsite.infra.bounded_json import count_values
from clawsite.infra.text import make_storable
from clawsite.infra.validation import describe_first_error

MAX_VALUES = 300_000  # per frame; parsing them takes 40 MB and 0.05 s. The largest frame could contain 9 million empty lists

PROTOCOLS = (1, 3, 4)  # version 2 was never used
NEWEST_PROTOCOL = PROTOCOLS[-1]

Dialect = Literal["classic", "modern"]


def choose_protocol(lowest: int, highest: int) -> int | None:
    """Return the newest supported version in the client's range, or None."""
    return max((version for version in PROTOCOLS if lowest <= version <= highest), default=None)


def dialect_of(protocol: int) -> Dialect:
    return "classic" if protocol == 1 else "modern"


ShortText = Annotated[str, Field(min_length=1, max_length=512)]


class Wire(BaseModel):
    """camelCase on the wire, snake_case in Python. Unknown properties are ignored, because newer clients may send more."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", strict=True, frozen=True)


def _shorten_text(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= 128 else None


class Request(Wire):
    """A request from a client. Protocol 1 has `idempotencyKey` next to `params`.

    `traceparent` is W3C's: the run that a request starts belongs to that trace. A malformed one is ignored.
    """

    type: Literal["req"]
    id: ShortText
    method: ShortText
    params: dict[str, Any] | None = None
    idempotency_key: ShortText | None = None
    traceparent: Annotated[str | None, BeforeValidator(_shorten_text)] = None

    def answered(self) -> "Request":
        """Return a copy for the second response, without the params, which may be large."""
        return self.model_copy(update={"params": None})


class ErrorShape(Wire):
    code: str
    message: str
    details: dict[str, Any] | None = None
    retryable: bool | None = None
    retry_after_ms: int | None = None


class Response(Wire):
    """A response. `agent` has two with the same ID: accepted, and the end of the run."""

    type: Literal["res"] = "res"
    id: str
    ok: bool
    payload: Any = None
    error: ErrorShape | None = None


class Event(Wire):
    """An event. `seq` counts the events of one connection from 1 without gaps; `connect.challenge` has none."""

    type: Literal["event"] = "event"
    event: str
    seq: int | None = None
    state_version: int | dict[str, int] | None = None
    payload: Any = None


class Client(Wire):
    """The client as it describes itself. Any `id` is accepted; protocol 1 has no `mode`."""

    id: ShortText
    version: str = Field("", max_length=128)
    platform: str = Field("", max_length=128)
    mode: str = Field("", max_length=64)
    display_name: str | None = Field(None, max_length=256)
    device_family: str | None = Field(None, max_length=128)
    model_identifier: str | None = Field(None, max_length=128)
    instance_id: str | None = Field(None, max_length=256)


class ConnectAuth(Wire):
    """An access token or the gateway token goes in `token` or `password`, a device token also in `deviceToken`."""

    token: str | None = Field(None, max_length=4096)
    password: str | None = Field(None, max_length=4096)
    device_token: str | None = Field(None, max_length=4096)
    bootstrap_token: str | None = Field(None, max_length=4096)  # not used, but may be part of the signed text


class DeviceProof(Wire):
    """A base64url Ed25519 key and its signature of this connection; docs/devices.md describes the signed line."""

    id: str = Field(max_length=64)
    public_key: str = Field(max_length=64)
    signature: str = Field(max_length=128)
    signed_at: int
    nonce: str | None = Field(None, max_length=128)


Command = Annotated[str, Field(min_length=1, max_length=200)]


class ConnectParams(Wire):
    """Parameters of `connect`. A node declares `commands`, `permissions` and `pathEnv`."""

    min_protocol: int = Field(ge=1)
    max_protocol: int = Field(ge=1)
    client: Client
    role: str = "operator"
    scopes: list[str] = Field(default_factory=list, max_length=64)
    caps: list[Annotated[str, Field(max_length=128)]] = Field(default_factory=list, max_length=64)
    auth: ConnectAuth | None = None
    device: DeviceProof | None = None
    commands: list[Command] = Field(default_factory=list, max_length=256)
    permissions: dict[str, bool] = Field(default_factory=dict, max_length=256)
    path_env: str | None = Field(None, max_length=8192)
    locale: str | None = None  # of the client's interface, such as zh-CN


class BadFrame(Exception):
    """The frame is not a valid request. `id` is the frame's ID if it could be read."""

    def __init__(self, message: str, id: str = "invalid") -> None:
        super().__init__(message)
        self.message = message
        self.id = id


def parse_request(text: str) -> Request:
    if len(text) > MAX_VALUES and count_values(text.encode(errors="replace"), MAX_VALUES) > MAX_VALUES:
        raise BadFrame(f"invalid frame: more than {MAX_VALUES} values")
    try:
        value = orjson.loads(text)
    except ValueError as error:  # also raised for a lone surrogate and for nesting deeper than 1,024
        raise BadFrame("invalid frame: not JSON") from error
    if "\\u0000" in text:  # checked first, to avoid walking the whole value
        value = make_storable(value)
    try:
        return Request.model_validate(value)
    except ValidationError as error:
        id = value.get("id") if isinstance(value, dict) else None
        raise BadFrame(f"invalid frame: {describe_first_error(error)}", id if isinstance(id, str) and id else "invalid") from error


@dataclass(frozen=True, slots=True)
class EncodedEvent:
    """An event encoded once for all connections: each inserts its own seq between the two halves."""

    head: str
    tail: str
    size: int  # bytes on the wire, with room for the number

    def with_seq(self, seq: int) -> str:
        return f"{self.head}{seq}{self.tail}"


SEQ_BYTES = 12


def encode_event(name: str, payload: Any, *, state_version: int | dict[str, int] | None = None) -> EncodedEvent:
    body = orjson.dumps(payload)
    version = b"" if state_version is None else b',"stateVersion":' + orjson.dumps(state_version)
    head = f'{{"type":"event","event":"{name}","seq":'
    tail = version + b',"payload":' + body + b"}"
    return EncodedEvent(head, tail.decode(), len(head) + len(tail) + SEQ_BYTES)


def encode_challenge(nonce: str, ts: int) -> str:
    frame = {"type": "event", "event": "connect.challenge", "payload": {"nonce": nonce, "ts": ts}}
    return orjson.dumps(frame).decode()


def encode_success(id: str, payload: Any) -> str:
    return orjson.dumps({"type": "res", "id": id, "ok": True, "payload": payload}).decode()


def encode_failure(id: str, error: dict[str, Any], payload: Any = None) -> str:
    frame = {"type": "res", "id": id, "ok": False, "error": error}
    if payload is not None:
        frame["payload"] = payload
    return orjson.dumps(frame).decode()
