"""Session keys, which identify a session among its owner's sessions. Pure.

agent:{agent}:main                        the agent's main session
agent:{agent}:{channel}:dm:{peer}         a direct chat on a channel
agent:{agent}:{channel}:group:{id}        a group, optionally …:thread:{id}
agent:{agent}:subagent:{uuid}             a subagent session
agent:{agent}:{anything else}             a session named by its user
cron:{job} and hook:{id}                  short for `agent:{default}:cron:…`, `…:hook:…`
session:{id}                              another user's shared session; own keys never start with this
"""

import re
from dataclasses import dataclass
from typing import Literal

from clawsite.infra.errors import InvalidRequest

KeyKind = Literal["main", "dm", "group", "subagent", "cron", "hook", "named"]

DEFAULT_AGENT = "main"
SHARED_PREFIX = "session:"
OPENAI_CHANNEL = "openai"  # channel of a session created for a single request of a program that keeps its own history
MAX_KEY_LENGTH = 512
_AGENT_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Printable, no whitespace: keys appear in log lines and URLs.
_PART_PATTERN = re.compile(r"[^\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class SessionKey:
    agent: str
    rest: tuple[str, ...]

    def __str__(self) -> str:
        return ":".join(("agent", self.agent, *self.rest))

    @property
    def kind(self) -> KeyKind:
        match self.rest:
            case ("main",):
                return "main"
            case ("subagent", _, *_):
                return "subagent"
            case ("cron", _, *_):
                return "cron"
            case ("hook", _, *_):
                return "hook"
            case (_, "dm", _, *_):
                return "dm"
            case (_, "group", _, *_):
                return "group"
            case _:
                return "named"

    @property
    def channel(self) -> str:
        return self.rest[0] if self.kind in ("dm", "group") else ""

    @property
    def group(self) -> str:
        """The group ID, which may contain colons."""
        if self.kind != "group":
            return ""
        parts = self.rest[2:-2] if self.thread else self.rest[2:]
        return ":".join(parts)

    @property
    def thread(self) -> str:
        return self.rest[-1] if len(self.rest) >= 2 and self.rest[-2] == "thread" else ""

    @property
    def hook(self) -> str:
        """The webhook this session belongs to; its limits apply to every run here."""
        return self.rest[1] if self.kind == "hook" else ""

    @property
    def is_subagent(self) -> bool:
        return self.kind == "subagent"


def parse_key(text: str, *, default_agent: str = DEFAULT_AGENT) -> SessionKey:
    """Parse a key; `main`, `cron:x`, `hook:x` and plain names belong to the default agent."""
    if not text or len(text) > MAX_KEY_LENGTH:
        raise InvalidRequest(f"a session key must have 1 to {MAX_KEY_LENGTH} characters")
    parts = text.strip().split(":")
    if parse_shared_key(text) is not None:
        raise InvalidRequest(f"session key {text!r} names a shared session and can't be used here")
    if parts[0].lower() == "agent":
        if len(parts) < 3:
            raise InvalidRequest(f"session key {text!r} is incomplete: use agent:<agent>:<name>, for example agent:main:main")
        agent, rest = parts[1].lower(), parts[2:]
    else:
        agent, rest = default_agent, parts
    if not _AGENT_PATTERN.fullmatch(agent):
        raise InvalidRequest(f"invalid agent ID {agent!r} in session key {text!r}: use a-z, 0-9, - and _, at most 64 characters")
    if not all(_PART_PATTERN.fullmatch(part) for part in rest):
        raise InvalidRequest(f"session key {text!r} has an empty part or whitespace")
    # Grammar words are lowercased; peer and group IDs keep their case because other systems define them.
    grammar = {"main", "dm", "group", "thread", "subagent", "cron", "hook"}
    return SessionKey(agent, tuple(part.lower() if part.lower() in grammar else part for part in rest))


def make_chat_key(agent: str, channel: str, *, peer: str = "", group: str = "", thread: str = "") -> SessionKey:
    """Build the key of a group, or of a direct chat with a peer. Raise InvalidRequest for IDs that would name another chat."""
    chat = ("group", group) if group else ("dm", peer)
    text = ":".join(("agent", agent, channel, *chat, *(("thread", thread) if thread else ())))
    key = parse_key(text)
    if str(key) != text or (key.channel, key.group, key.thread) != (channel, group, thread):
        raise InvalidRequest(f"IDs can't be used in a session key: chat {peer or group!r}, thread {thread!r}")
    return key


def is_agent_name(text: str) -> bool:
    """Return whether this is a valid agent ID."""
    return bool(_AGENT_PATTERN.fullmatch(text))


def make_shared_key(session_id: object) -> str:
    """Return the name users other than the owner use for a session; its key may clash with one of theirs."""
    return f"{SHARED_PREFIX}{session_id}"


def parse_shared_key(key: str) -> str | None:
    """Return the session ID in a shared key; None if it isn't one."""
    key = key.strip()
    return key[len(SHARED_PREFIX) :] if key.lower().startswith(SHARED_PREFIX) else None


def make_main_key(agent: str = DEFAULT_AGENT) -> str:
    return f"agent:{agent}:main"
