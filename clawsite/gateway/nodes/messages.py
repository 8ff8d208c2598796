"""Bus messages about nodes: between the process that holds a node's socket and the others."""

from dataclasses import dataclass
from typing import Any

from clawsite.infra.bus import BusMessage


@dataclass(frozen=True)
class InvocationCreated(BusMessage, kind="node-invoke"):
    """An invocation waits to be sent by the process that holds the node's socket."""

    id: str
    device: int


@dataclass(frozen=True)
class InvocationEnded(BusMessage, kind="node-result"):
    """An invocation has a result, an error, or has timed out."""

    id: str


@dataclass(frozen=True)
class NodeBroadcastSent(BusMessage, kind="node-broadcast"):
    """An event for the given nodes. It is not stored."""

    devices: list[int]
    event: dict[str, Any]


@dataclass(frozen=True)
class NodeEventReported(BusMessage, kind="node-event"):
    """A node reported an event to its owner's connections. It is not stored."""

    owner: int
    event: dict[str, Any]
