"""Who is online across all processes, with a version so that an outdated list can be ignored.

Every process publishes its own entries when they change and at every tick; entries of a process that has been silent for three
ticks are removed. One-shot clients (command line, probes, programs) are not listed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.protocol.hello import to_wire_entries
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.infra import clock
from clawsite.infra.bus import BusMessage

PresenceEntry = dict[str, Any]

UNLISTED_MODES = frozenset({"cli", "probe", "backend"})
MAX_ENTRIES = 200
EXPIRY_SECONDS = 3 * limits.TICK_SECONDS

# Protocol 1's names for what a client may do.
_CAPABILITIES = {Scope.READ: ["sessions"], Scope.WRITE: ["agent", "send"], Scope.APPROVALS: ["approvals"], Scope.ADMIN: ["config"]}


def to_entry(connection: Connection) -> PresenceEntry | None:
    client, authority = connection.client, connection.authority
    is_node = connection.role == "node"
    if client.mode in UNLISTED_MODES and not is_node:
        return None
    entry = {
        "id": client.id,
        "key": node_key(connection.device_pk) if is_node else _client_key(connection),
        "deviceId": connection.device_id,
        "status": "online",
        "host": client.display_name or client.id,
        "version": client.version,
        "platform": client.platform,
        "deviceFamily": client.device_family,
        "modelIdentifier": client.model_identifier,
        "mode": client.mode or ("node" if is_node else "ui"),
        "instanceId": client.instance_id,
        "roles": [connection.role],
        "scopes": sorted(authority.scopes),
        "capabilities": [name for scope, names in _CAPABILITIES.items() if has_scope(authority.scopes, scope) for name in names],
        "user": {"id": str(authority.user.pk), "name": authority.user.get_username()},
        "reason": "connect",
        "onlineSince": connection.connected_ms,
        "ts": connection.connected_ms,
    }
    return {name: value for name, value in entry.items() if value is not None and value != ""}


def _client_key(connection: Connection) -> str:
    """The key of one client instance. It includes the account, so that instance IDs can only collide within one account."""
    return f"client {connection.user_pk} {connection.client.instance_id or connection.id}"


def node_key(device_pk: int) -> str:
    """The key of a node, wherever it is connected: its device's primary key, because a node chooses its own name."""
    return f"node {device_pk}"


@dataclass(frozen=True)
class PresenceChanged(BusMessage, kind="presence"):
    """All clients connected to one process."""

    process: str
    entries: list[PresenceEntry]


@dataclass(slots=True)
class StateVersions:
    """Increased with every change to the snapshot's content; both start at 1 in each process."""

    presence: int = 1
    health: int = 1

    def to_wire(self) -> dict[str, int]:
        return {"presence": self.presence, "health": self.health}


class Presence:
    def __init__(
        self,
        process: str,
        me: PresenceEntry,
        versions: StateVersions,
        *,
        publish: Callable[[BusMessage], None],
        tell: Callable[[OutgoingEvent], None],
        later: Callable[[float, Callable[[], None]], object],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process, self._me, self._versions = process, me, versions
        self._publish, self._notify, self._later, self._now = publish, tell, later, now
        self._mine: dict[str, PresenceEntry] = {}  # by connection
        self._others: dict[str, tuple[float, list[PresenceEntry]]] = {}  # by process: time of its last message, its entries
        self._changes: list[PresenceEntry] = []
        self._unannounced = False
        self._timed = False
        self._notified_at = float("-inf")

    def entries(self) -> list[PresenceEntry]:
        """Return the entries, newest first, one per client instance, including the server's own."""
        known = [*list(self._mine.values()), *(entry for _, entries in list(self._others.values()) for entry in entries)]
        by_key = {entry["key"]: entry for entry in sorted(known, key=lambda entry: int(entry["ts"]))}
        newest = sorted(by_key.values(), key=lambda entry: -int(entry["ts"]))
        return [{**self._me, "ts": clock.now_ms()}, *newest[: MAX_ENTRIES - 1]]

    def online_since(self, key: str) -> int | None:
        """Return when a client connected, as far as this process knows; None if it is not online."""
        known = [*list(self._mine.values()), *(entry for _, entries in list(self._others.values()) for entry in entries)]
        return max((int(entry["onlineSince"]) for entry in known if entry["key"] == key), default=None)

    def add(self, connection: Connection) -> None:
        if entry := to_entry(connection):
            self._mine[connection.id] = entry
            self._record_change(entry)

    def handle_disconnect(self, connection: Connection) -> None:
        if entry := self._mine.pop(connection.id, None):
            self._record_change({**entry, "status": "offline", "reason": "disconnect"})

    def handle_message(self, message: PresenceChanged) -> None:
        """Handle another process's list of its clients."""
        process, entries = message.process, message.entries
        if process == self._process:
            return
        known = self._others.get(process)
        self._others[process] = (self._now(), entries)
        if known is None:
            self._announce()  # that process has just started and does not know our entries yet
        before = {entry["key"]: entry for entry in known[1]} if known else {}
        after = {entry["key"]: entry for entry in entries}
        for key in before.keys() - after.keys():
            self._record_change({**before[key], "status": "offline", "reason": "disconnect"}, announced=True)
        for key in after.keys() - before.keys():
            self._record_change(after[key], announced=True)

    def tick(self) -> None:
        """Announce that this process is alive, and remove processes that are not."""
        self._announce()
        for process, (heard, entries) in list(self._others.items()):
            if self._now() - heard > EXPIRY_SECONDS:
                del self._others[process]
                for entry in entries:
                    self._record_change({**entry, "status": "offline", "reason": "disconnect"}, announced=True)

    def leave(self) -> None:
        """Announce that this process is stopping."""
        self._mine.clear()
        self._announce()

    def _announce(self) -> None:
        self._unannounced = False
        self._publish(PresenceChanged(self._process, list(self._mine.values())))

    def _record_change(self, entry: PresenceEntry, *, announced: bool = False) -> None:
        """Record a change and notify clients: immediately if the last notification was long enough ago, otherwise after a pause."""
        self._changes.append(entry)
        self._unannounced = self._unannounced or not announced
        if not self._timed:
            self._timed = True
            pause = limits.PRESENCE_PAUSE_SECONDS * max(
                1.0, len(self._mine) / 50
            )  # a long list goes to many clients, so send it less often
            self._later(max(0.0, self._notified_at + pause - self._now()), self._notify_clients)

    def _notify_clients(self) -> None:
        self._timed = False
        self._notified_at = self._now()
        self._versions.presence += 1
        if self._unannounced:
            self._announce()
        changes, self._changes = self._changes, []
        entries = self.entries()
        # In protocol 1, an event is about one client, the last to connect or disconnect; `changes` also has the others.
        brief = [{name: entry[name] for name in ("id", "status", "capabilities")} for entry in changes[-MAX_ENTRIES:]]
        classic = {"presence": entries, **brief[-1], "changes": brief}
        modern = {"presence": to_wire_entries(entries, "modern")}
        self._notify(OutgoingEvent("presence", modern, classic, state_version=self._versions.to_wire(), droppable=True))
