"""What one connection has subscribed to, and which live events it skips because it gets them from the rows.

Sessions are named by ID. A client can also subscribe to one of its own sessions that doesn't exist yet, by key; `own_key` is
the key of a session if it belongs to the connection's user, else None.
"""

import asyncio
from collections.abc import Collection
from typing import Any


class Subscriptions:
    __slots__ = (
        "_all_messages_since",
        "_approvals",
        "_floors",
        "_followed",
        "_followed_keys",
        "_message_floors",
        "_message_keys",
        "_promised",
        "_replaying",
        "may_skip",
    )

    def __init__(self) -> None:
        self._followed: set[str] = set()
        self._followed_keys: set[str] = set()
        self._promised: dict[str, asyncio.Event] = {}  # by key: set once the response that promises all events was sent
        self._all_messages_since = 0  # ms; 0 if it didn't subscribe to the messages of all sessions
        self._message_floors: dict[str, int] = {}  # by session: messages after this position
        self._message_keys: set[str] = set()
        self._approvals: set[str] = set()  # IDs and keys
        self._replaying: set[str] = set()  # sessions whose missed events are being sent from the rows
        self._floors: dict[str, int] = {}  # by session: cursor up to which everything was sent from the rows
        self.may_skip = False  # read for every event and connection, so that `skips` is rarely called

    # Events

    @property
    def followed(self) -> Collection[str]:
        return tuple(self._followed)

    @property
    def count(self) -> int:
        return len(self._followed) + len(self._followed_keys)

    def follows(self, session_id: str | None, own_key: str | None) -> bool:
        return session_id in self._followed or own_key in self._followed_keys

    def follow(self, session_id: str) -> None:
        self._followed.add(session_id)

    def follow_key(self, key: str, promised: asyncio.Event | None = None) -> None:
        """Follow a future session; with `promised`, from its very first event, but not before `promised` is set."""
        self._followed_keys.add(key)
        if promised:
            self._promised[key] = promised
            self.may_skip = True

    def take_promise(self, key: str) -> asyncio.Event | None:
        """Return the promise of all events of this session, once. The caller then sends them."""
        return self._promised.pop(key, None)

    def unfollow(self, session_id: str) -> None:
        self._followed.discard(session_id)

    def unsubscribe(self, session_id: str | None, own_key: str) -> None:
        """End everything but following by ID, which the audience ends."""
        self._followed_keys.discard(own_key)
        self._message_keys.discard(own_key)
        self._promised.pop(own_key, None)
        self._approvals -= {own_key, session_id}
        if session_id is not None:
            self._message_floors.pop(session_id, None)

    # Messages and approval requests

    def follow_all_messages(self, now_ms: int) -> None:
        self._all_messages_since = self._all_messages_since or now_ms

    def follow_messages(self, session_id: str, after: int) -> None:
        """Send messages after this position. A repeated subscription doesn't change the first position."""
        self._message_floors.setdefault(session_id, after)

    def follow_messages_of_key(self, key: str) -> None:
        self._message_keys.add(key)

    def wants_messages(self, session_id: str, own_key: str | None) -> bool:
        """Whether it subscribed to messages of a session that it may see."""
        return bool(self._all_messages_since) or session_id in self._message_floors or own_key in self._message_keys

    def is_new_message(self, session_id: str, own_key: str | None, message: dict[str, Any]) -> bool:
        """Whether a message was stored after it subscribed."""
        if session_id in self._message_floors:
            return bool(message["position"] > self._message_floors[session_id])
        return own_key in self._message_keys or 0 < self._all_messages_since <= message["timestamp"]

    def follow_approvals(self, id_or_key: str) -> None:
        self._approvals.add(id_or_key)

    def wants_approvals(self, session_id: str, own_key: str | None) -> bool:
        """Whether it subscribed to approval requests of a session that it may see."""
        return session_id in self._approvals or own_key in self._approvals

    # Replay

    def is_replaying(self, session_id: str) -> bool:
        return session_id in self._replaying

    def start_replay(self, session_id: str) -> None:
        """Skip live events of this session until `end_replay`, because they will be sent from the rows."""
        self._replaying.add(session_id)
        self.may_skip = True

    def end_replay(self, session_id: str, cursor: int | None = None) -> None:
        """Continue with live events; with `cursor`, after it, because everything up to it was sent from the rows."""
        self._replaying.discard(session_id)
        if cursor is not None:
            self._floors[session_id] = cursor

    def skips(self, session_id: str, own_key: str | None, cursor: int) -> bool:
        """Whether this live event was or will be sent from the rows."""
        self.may_skip = bool(self._replaying or self._promised or self._floors)
        return session_id in self._replaying or own_key in self._promised or self._was_replayed(session_id, cursor)

    def _was_replayed(self, session_id: str, cursor: int) -> bool:
        floor = self._floors.get(session_id)
        if floor is None:
            return False
        if cursor <= floor:
            return True
        del self._floors[session_id]
        return False
