"""Python client for the gateway protocol. It needs only `websockets`."""

from clawsite.client.client import BEGINNING, Client, Event, EventsGone, RunFailed
from clawsite.client.connection import Connection, ConnectionLost, Endpoint, GatewayError, Unreachable

__all__ = [
    "BEGINNING",
    "Client",
    "Connection",
    "ConnectionLost",
    "Endpoint",
    "Event",
    "EventsGone",
    "GatewayError",
    "RunFailed",
    "Unreachable",
]
