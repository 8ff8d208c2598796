"""Session keys: the address of a conversation within one owner's sessions. Pure.

agent:{agent}:main                        the agent's main session
agent:{agent}:{channel}:dm:{peer}         a direct chat on a channel
agent:{agent}:{channel}:group:{id}        a group, optionally …:thread:{id}
agent:{agent}:subagent:{uuid}             a child
agent:{agent}:{anything else}             a session somebody named
cron:{job} and hook:{id}                  as `agent:{default}:cron:…`, `…:hook:…`
session:{id}                              somebody else's, which is shared; no key of one's own begins so
"""

import re
from dataclasses import dataclass
from typing import Literal

from clawsite.infra.errors import InvalidRequest

KeyKind = Literal["main", "dm", "group", "subagent", "cron", "hook", "named"]

DEFAULT_AGENT = "main"
SHARED_PREFIX = "session:"
OPENAI_CHANNEL = "openai"  # channel of a session made for one request of a program that keeps its conversation itself
MAX_KEY_LENGTH = 512
_AGENT_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
# Printable, no white space: keys stand in log lines and addresses.
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
        """Its id, which may have colons of its own."""
        if self.kind != "group":
            return ""
        parts = self.rest[2:-2] if self.thread else self.rest[2:]
        return ":".join(parts)

    @property
    def thread(self) -> str:
        return self.rest[-1] if len(self.rest) >= 2 and self.rest[-2] == "thread" else ""

    @property
    def hook(self) -> str:
        """The webhook that the conversation is with: its limits are those of every run there."""
        return self.rest[1] if self.kind == "hook" else ""

    @property
    def is_subagent(self) -> bool:
        return self.kind == "subagent"


def parse_key(text: str, *, default_agent: str = DEFAULT_AGENT) -> SessionKey:
    """Read a key; `main`, `cron:x`, `hook:x` and plain names belong to the default agent."""
    if not text or len(text) > MAX_KEY_LENGTH:
        raise InvalidRequest(f"a session key has 1 to {MAX_KEY_LENGTH} characters")
    parts = text.strip().split(":")
    if parse_shared_key(text) is not None:
        raise InvalidRequest(f"session key {text!r} is the name of a session that somebody shares; it cannot be used here")
    if parts[0].lower() == "agent":
        if len(parts) < 3:
            raise InvalidRequest(
                f"session key {text!r} lacks its last part: write agent:<agent>:<name>, for example agent:main:main"
            )
        agent, rest = parts[1].lower(), parts[2:]
    else:
        agent, rest = default_agent, parts
    if not _AGENT_PATTERN.fullmatch(agent):
        raise InvalidRequest(f"session key {text!r} names the agent {agent!r}: use a-z, 0-9, - and _, at most 64 characters")
    if not all(_PART_PATTERN.fullmatch(part) for part in rest):
        raise InvalidRequest(f"session key {text!r} has an empty part or white space")
    # Words of the grammar are lower case; peer and group ids keep theirs, since they are other systems' names.
    words = {"main", "dm", "group", "thread", "subagent", "cron", "hook"}
    return SessionKey(agent, tuple(part.lower() if part.lower() in words else part for part in rest))


def is_agent_name(text: str) -> bool:
    """Whether an agent can have this id."""
    return bool(_AGENT_PATTERN.fullmatch(text))


def make_shared_key(session_id: object) -> str:
    """How others than its owner call a session: among their own, its key may be another one's."""
    return f"{SHARED_PREFIX}{session_id}"


def parse_shared_key(key: str) -> str | None:
    """The id in such a name; None if it is none."""
    key = key.strip()
    return key[len(SHARED_PREFIX) :] if key.lower().startswith(SHARED_PREFIX) else None


def make_main_key(agent: str = DEFAULT_AGENT) -> str:
    return f"agent:{agent}:main"
