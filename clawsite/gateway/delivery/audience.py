"""The clients connected to this process, and which sessions they may see. Members are read from rows; the rest is in memory."""

import asyncio
from collections.abc import Iterable, Iterator

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.hub_queries import HubQueries, MembersBySession
from clawsite.infra import clock


class Audience:
    def __init__(self, rows: HubQueries) -> None:
        self._rows = rows
        self._by_user: dict[int, set[Connection]] = {}
        self._followers: dict[str, set[Connection]] = {}
        self._members: MembersBySession = {}
        self.version = 0  # increased on every connect, disconnect, follow, unfollow or change of access
        self.since_ms = 0  # when the oldest current connection was added

    def __bool__(self) -> bool:
        return bool(self._by_user)

    def __len__(self) -> int:
        """Safe to call from any thread."""
        return sum(map(len, list(self._by_user.values())))

    def __iter__(self) -> Iterator[Connection]:
        for group in self._by_user.values():
            yield from group

    @property
    def users(self) -> list[int]:
        return list(self._by_user)

    def connections_of_user(self, user_pk: int) -> list[Connection]:
        return list(self._by_user.get(user_pk, ()))

    def is_followed(self, session_id: str) -> bool:
        return session_id in self._followers

    def follow_key(self, connection: Connection, key: str, *, promised: asyncio.Event | None = None) -> None:
        """Follow one of the user's own sessions, which does not exist yet, by key; with `promised`, from its very first event.

        `promised` is set once the client has been sent the response that promises this: no event is sent before it.
        """
        connection.subscriptions.follow_key(key, promised)
        self.changed()

    def take_waiting_followers(self, session_id: str, owner: int, key: str) -> list[tuple[Connection, asyncio.Event]]:
        """Return connections that were promised all events of a future session. Each is returned once and then follows its ID."""
        waiting = []
        for connection in self._by_user.get(owner, ()):
            if promised := connection.subscriptions.take_promise(key):
                self.follow(connection, session_id)
                waiting.append((connection, promised))
        return waiting

    def add(self, connection: Connection, member_of: Iterable[str] = ()) -> None:
        """Start sending the connection what its user may see: own sessions and those they are a member of."""
        if not self._by_user:
            self.since_ms = clock.now_ms()
        joined = {session_id: self._members.get(session_id, frozenset()) | {connection.user_pk} for session_id in member_of}
        self._members = {**self._members, **joined}
        self._by_user.setdefault(connection.user_pk, set()).add(connection)
        self.changed()

    def remove(self, connection: Connection) -> None:
        group = self._by_user.get(connection.user_pk, set())
        group.discard(connection)
        if not group:
            self._by_user.pop(connection.user_pk, None)
        for session_id in connection.subscriptions.followed:
            self.unfollow(connection, session_id)
        self.changed()

    def follow(self, connection: Connection, session_id: str) -> None:
        connection.subscriptions.follow(session_id)
        self._followers.setdefault(session_id, set()).add(connection)
        self.changed()

    def unfollow(self, connection: Connection, session_id: str) -> None:
        connection.subscriptions.unfollow(session_id)
        followers = self._followers.get(session_id, set())
        followers.discard(connection)
        if not followers:
            self._followers.pop(session_id, None)
        self.changed()

    def changed(self) -> None:
        self.version += 1

    async def load_members(self) -> None:
        members, users = self._members, None
        while users != self.users:  # users connected or disconnected during the read, so it is out of date
            users = self.users
            members = await self._rows.members(users)
        if members is not self._members:
            self._members = members
            self.changed()

    def connections_of_session(self, session_id: str, owner: int, key: str) -> list[Connection]:
        """Return connections of the owner and members, and those of users who may read all sessions if they follow this one."""
        users = {owner, *self._members.get(session_id, ())}
        connections = [
            connection for user in users for connection in self.user_connections_for_session(user, session_id, owner, key)
        ]
        others = (c for c in self._followers.get(session_id, ()) if c.user_pk not in users)
        return connections + [
            connection for connection in others if connection.authority.may_read and connection.authority.sees_all
        ]

    def may_see(self, connection: Connection, session_id: str) -> bool:
        """Whether the connection may see this session of another user."""
        return connection.user_pk in self._members.get(session_id, ()) or connection.authority.sees_all

    def user_connections_for_session(self, user: int, session_id: str, owner: int, key: str) -> list[Connection]:
        """Return one user's connections that want events of a session."""
        return [
            connection
            for connection in self._by_user.get(user, ())
            if connection.authority.may_read and (not connection.scoped or _has_subscribed(connection, session_id, owner, key))
        ]


def _has_subscribed(connection: Connection, session_id: str, owner: int, key: str) -> bool:
    return connection.subscriptions.follows(session_id, key if connection.user_pk == owner else None)
