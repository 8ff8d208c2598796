"""Where a message comes from: its sender, the channel or webhook it arrived by, and the sessions that forwarded it. Pure.

Every transcript entry of a run with restricted input records that origin in its meta, because later runs without the restriction
read it. Input is restricted if it comes from a webhook, or from a program whose access token allows only some tools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

WEBHOOK_KEY = "hook"  # in an entry's meta: the webhook whose content the run contains
TOKEN_PREFIX_KEY = "tokenPrefix"  # noqa: S105  # in an entry's meta: the prefix of the access token that limits the run
NO_ORIGIN: Mapping[str, str] = MappingProxyType({})  # of an ordinary run's entries


@dataclass(frozen=True, slots=True)
class Sender:
    """The sender in a group chat, by the names the channel knows them by, in the order in which rules are looked up."""

    id: str = ""
    e164: str = ""
    username: str = ""
    name: str = ""


NO_SENDER = Sender()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message comes from and where its answer goes. Empty for the pages and programs of an account.

    A connector fills in the first group of fields, in the terms of its service.
    """

    channel: str = ""
    account: str = ""  # the connector's own account on the channel, such as a bot
    peer: str = ""  # the other side of a direct chat
    group: str = ""
    thread: str = ""
    sender: Sender = NO_SENDER
    reply_to: str = ""  # where the connector delivers the answer, if the chat alone doesn't say it

    webhook: str = ""  # also limits the run
    through: tuple[tuple[str, str], ...] = ()  # agent and session of each hop that forwarded the message, oldest first


ORDINARY_ORIGIN = Origin()


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """The tools that the run's access token allows; `name` is the token's public part."""

    name: str
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "allow": list(self.allow), "deny": list(self.deny)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TokenLimits":
        return cls(data["name"], tuple(data["allow"]), tuple(data["deny"]))

    @classmethod
    def parse(cls, stored: Mapping[str, Any] | None) -> "TokenLimits | None":
        """Return the limits stored with a run or an account; None if there are none."""
        return cls.from_json(stored) if stored else None


def origin_of_entry(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: meta[name] for name in (WEBHOOK_KEY, TOKEN_PREFIX_KEY) if meta.get(name)}
