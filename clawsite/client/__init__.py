"""Python client of the gateway protocol."""

from clawsite.client.client import Client, Event, EventsGone, RunFailed
from clawsite.client.connection import Connection, ConnectionLost, Endpoint, GatewayError, Unreachable

__all__ = [
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
