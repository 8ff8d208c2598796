"""What a run was asked to do: its kind, origin, limits and settings. Only this module knows the JSON stored in `Run.options`.

To add a kind of run, add a subclass of RunKind and list it in KINDS. Stored keys never change their meaning: old rows are read,
and a request that was accepted before an upgrade and is sent again after it must hash to the same value.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NotRequired, Self, TypedDict

from django.db.models import Q

from sessions_app.keys import parse_key
from sessions_app.origin import ORDINARY_ORIGIN, TOKEN_PREFIX_KEY, WEBHOOK_KEY, Origin, Sender, TokenLimits

log = logging.getLogger(__name__)

Block = dict[str, Any]


class ClientTool(TypedDict):
    """A tool that the caller of a run executes."""

    name: str
    description: str
    parameters: dict[str, Any]


class ClientToolResult(TypedDict):
    """The result of a call to such a tool. The name is added when the result is accepted."""

    callId: str
    text: str
    name: NotRequired[str]


class RunKind:
    """How runs of one kind differ from others. `key` marks the kind in the stored request; its value is `to_json()`."""

    __slots__ = ()

    key: ClassVar[str]
    operation: ClassVar[str] = ""  # shown to clients instead of a message, for a kind that has none
    takes_events: ClassVar[bool] = True  # receives the system events queued for its session
    makes_title: ClassVar[bool] = True  # the run's prompt can become the session's title

    @property
    def changes_session(self) -> bool:
        """Whether queueing the run changes the session, which must then be locked."""
        return False

    @property
    def asks_model(self) -> bool:
        return True

    def to_json(self) -> Any:
        raise NotImplementedError

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Prompt(RunKind):
    """A message for the agent. `replaces` is the ID of the user message to hide first, with everything after it."""

    key = "replaces"

    replaces: str = ""

    @property
    def changes_session(self) -> bool:
        return bool(self.replaces)

    def to_json(self) -> str:
        return self.replaces

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls(stored)


@dataclass(frozen=True, slots=True)
class ToolResults(RunKind):
    """Results of calls that the previous run handed over to its caller. They open the run instead of a message."""

    key = "toolResults"
    takes_events = False

    results: tuple[ClientToolResult, ...] = ()

    @property
    def changes_session(self) -> bool:
        return True

    def to_json(self) -> list[ClientToolResult]:
        return list(self.results)

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls(tuple(stored))


@dataclass(frozen=True, slots=True)
class Compaction(RunKind):
    """Only summarize the session. With `max_lines`, drop older entries without calling a model."""

    key = "compact"
    operation = "compact"
    takes_events = makes_title = False

    instructions: str = ""
    max_lines: int | None = None

    @property
    def asks_model(self) -> bool:
        return not self.max_lines

    def to_json(self) -> dict[str, Any]:
        return {"words": self.instructions, **({"maxLines": self.max_lines} if self.max_lines else {})}

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls(stored.get("words", ""), stored.get("maxLines"))


@dataclass(frozen=True, slots=True)
class Invocation(RunKind):
    """A tool call made by a person or program, without a model."""

    key = "invoke"
    takes_events = False

    tool: str
    arguments: dict[str, Any]

    @property
    def asks_model(self) -> bool:
        return False

    def to_json(self) -> dict[str, Any]:
        return {"name": self.tool, "args": self.arguments}

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls(stored["name"], stored["args"])


@dataclass(frozen=True, slots=True)
class Wake(RunKind):
    """Let the agent handle the system events queued for the session; no person has written."""

    key = "wake"
    makes_title = False

    def to_json(self) -> bool:
        return True

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls()


@dataclass(frozen=True, slots=True)
class NestedMessage(RunKind):
    """A message from the agent of another session, sent by a tool call. `depth` is the length of the chain of messages."""

    key = "sentBy"

    run: int | None
    call: str
    waits: bool = False  # the call waits for the answer
    depth: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "call": self.call, "waits": self.waits, "depth": self.depth}

    @classmethod
    def from_json(cls, stored: Any) -> Self:
        return cls(stored.get("run"), stored.get("call", ""), stored.get("waits", False), stored.get("depth", 0))


@dataclass(frozen=True, slots=True)
class Unreadable(RunKind):
    """A stored request that this version can't read. Its run fails, because its limits are unknown; never stored."""

    takes_events = makes_title = False

    @property
    def asks_model(self) -> bool:
        return False


KINDS: dict[str, type[RunKind]] = {kind.key: kind for kind in (ToolResults, Compaction, Invocation, Wake, NestedMessage, Prompt)}
PLAIN_PROMPT = Prompt()
# Fields of RunRequest that are stored as they are, omitted if empty.
PLAIN_FIELDS = {
    "model": "model",
    "thinking": "thinking",
    "parameters": "parameters",
    "extra_system_prompt": "extraSystemPrompt",
    "attachments": "attachments",
    "client_tools": "clientTools",
    "traceparent": "traceparent",
}
PLAIN_FIELD_OF_KEY = {key: name for name, key in PLAIN_FIELDS.items()}
PLACE_FIELDS = {
    "channel": "channel",
    "account": "account",
    "peer": "peer",
    "group": "group",
    "thread": "thread",
    "reply_to": "replyTo",
}
ORIGIN_KEYS = {"hook", "through", "sender", "origin", NestedMessage.key}
SENDER_FIELDS = tuple(each.name for each in fields(Sender))
NOT_COMPARED = ("traceparent", "origin", "sender")  # can differ when the same request is sent again


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything about a run that is known when it is accepted, beside its prompt, lane and timeout."""

    kind: RunKind = PLAIN_PROMPT
    origin: Origin = ORDINARY_ORIGIN
    token_limits: TokenLimits | None = None
    model: str = ""
    thinking: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)  # sampling
    extra_system_prompt: str = ""
    attachments: tuple[Block, ...] = ()  # {type, attachmentId, mimeType, name, size, sha256}
    client_tools: tuple[ClientTool, ...] = ()
    traceparent: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the stored form, which omits everything empty: most runs store almost nothing."""
        if self is ORDINARY_REQUEST:
            return {}
        stored = {key: value for name, key in PLAIN_FIELDS.items() if (value := getattr(self, name))}
        if self.kind != PLAIN_PROMPT:
            stored[self.kind.key] = self.kind.to_json()
        if self.origin is not ORDINARY_ORIGIN:
            _store_origin(stored, self.origin)
        if self.token_limits:
            stored["keyLimits"] = self.token_limits.to_json()
        return stored

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "RunRequest":
        """Read the stored form. Unknown keys, of other versions, are ignored. One unreadable row must not stop others."""
        if not stored:
            return ORDINARY_REQUEST
        try:
            return cls._parse(stored)
        except (AttributeError, KeyError, TypeError, ValueError):
            log.exception("can't read a stored run request")
            return UNREADABLE_REQUEST

    @classmethod
    def _parse(cls, stored: Mapping[str, Any]) -> "RunRequest":
        kind: RunKind = PLAIN_PROMPT
        given: dict[str, Any] = {}
        for key, value in stored.items():
            if name := PLAIN_FIELD_OF_KEY.get(key):
                given[name] = tuple(value) if isinstance(value, list) else value
            elif kind_of_key := KINDS.get(key):
                kind = kind_of_key.from_json(value)
        origin = ORDINARY_ORIGIN if ORIGIN_KEYS.isdisjoint(stored) else _read_origin(stored)
        return cls(kind, origin, TokenLimits.parse(stored.get("keyLimits")), **given)

    def to_comparable(self) -> dict[str, Any]:
        """Return what identifies the request; attachments are compared by content, not by ID.

        A client that sends its bytes again after losing the response must get its first run, even if it uses a different trace.
        """
        compared = {name: value for name, value in self.to_json().items() if name not in NOT_COMPARED}
        if self.attachments:
            compared["attachments"] = [[block["sha256"], block["name"]] for block in self.attachments]
        return compared


ORDINARY_REQUEST = RunRequest()
UNREADABLE_REQUEST = RunRequest(kind=Unreadable())


def _store_origin(stored: dict[str, Any], origin: Origin) -> None:
    if origin.webhook:
        stored["hook"] = origin.webhook
    if origin.through:
        # Messages between sessions have always stored it there.
        stored.get(NestedMessage.key, stored)["through"] = [list(hop) for hop in origin.through]
    if sender := {name: value for name in SENDER_FIELDS if (value := getattr(origin.sender, name))}:
        stored["sender"] = sender
    if place := {key: value for name, key in PLACE_FIELDS.items() if (value := getattr(origin, name))}:
        stored["origin"] = place


def _read_origin(stored: Mapping[str, Any]) -> Origin:
    through = stored.get(NestedMessage.key, stored).get("through", ())
    sender, place = stored.get("sender", {}), stored.get("origin", {})
    return Origin(
        sender=Sender(**{name: sender[name] for name in SENDER_FIELDS if name in sender}),
        webhook=stored.get("hook", ""),
        through=tuple((agent, session) for agent, session in through),
        **{name: place[key] for name, key in PLACE_FIELDS.items() if key in place},
    )


def takes_events_of(webhook: str) -> Q:
    """Match runs that receive the system events of this webhook, or those without a webhook."""
    without_events = [key for key, kind in KINDS.items() if not kind.takes_events]
    own = Q(options__hook=webhook) if webhook else ~Q(options__has_key="hook")
    return own & ~Q(options__has_any_keys=without_events)


def origin_of_run(request: RunRequest) -> dict[str, str]:
    """Return the origin to store in the meta of the run's entries; empty for an ordinary run."""
    origin = {WEBHOOK_KEY: request.origin.webhook} if request.origin.webhook else {}
    return {**origin, TOKEN_PREFIX_KEY: request.token_limits.name} if request.token_limits else origin


def reader_origin(request: RunRequest, session_key: str) -> dict[str, str]:
    """Return the origin as which a run reads history: its own, plus the webhook that the session belongs to."""
    hook = parse_key(session_key).hook
    return {**({WEBHOOK_KEY: hook} if hook else {}), **origin_of_run(request)}
