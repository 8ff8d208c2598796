"""Sessions on the wire, and the parameters that create and change them. sessions_app.sessions.selectors reads them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NotRequired, cast

from pydantic import Field

from clawsite.accounts.models import User
from clawsite.gateway.protocol.params import Id, IdempotencyKey, Key, Params
from sessions_app.models import Session
from sessions_app.sessions import marks, selectors
from sessions_app.sessions.marks import SessionRowState


class SessionFacts(SessionRowState):
    """A session. `id` is permanent; `sessionId` changes with every reset. `pinned`, `archived` and `unread` are the caller's."""

    id: str
    key: str
    sessionId: str
    agentId: str
    kind: str
    label: str | None
    displayName: str | None
    derivedTitle: str | None
    channel: str
    owner: NotRequired[dict[str, Any]]
    createdAt: int
    updatedAt: int
    thinkingLevel: str | None
    verboseLevel: str | None
    model: str | None
    inputTokens: int
    outputTokens: int
    totalTokens: int
    costUsd: float
    cursor: int
    forkedFrom: NotRequired[str]


class SessionRow(SessionFacts):
    """A session with properties for gateway clients: settings, a preview of the last message, and active runs."""

    chatType: str
    reasoningLevel: NotRequired[str]
    responseUsage: NotRequired[str]
    elevatedLevel: NotRequired[str]
    sendPolicy: NotRequired[str]
    groupActivation: NotRequired[str]
    lastMessagePreview: NotRequired[str]
    hasActiveRun: NotRequired[bool]
    activeRunIds: NotRequired[list[str]]


ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh"]

POLICY_ONLY = "policies and exec rules define what an agent may do"


def to_row(user: User, session: Session) -> SessionRow:
    """Build a session's row in the user's list."""
    row = {
        **selectors.to_wire_session(session),
        "key": session.key_for(user.pk),
        **marks.read_row_states(user, [session])[session.pk],
    }
    return cast("SessionRow", row)


class Changes(Params):
    """Omitted fields stay unchanged; null clears a field. `pinned`, `archived` and `unread` only apply to the caller.

    `reasoningLevel` and `responseUsage` are stored for clients, which use them to show more or less; the server ignores them.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("execHost", "execSecurity", "execAsk", "execNode", "permissionMode", "toolOverrides"), POLICY_ONLY),
        **dict.fromkeys(("inheritedToolPolicyVersion", "inheritedToolAllow", "inheritedToolDeny"), POLICY_ONLY),
        **dict.fromkeys(("expectedPermissionMode", "expectedToolOverrides"), POLICY_ONLY),
        **dict.fromkeys(("contextWindow", "fastMode"), "choose a model"),
        **dict.fromkeys(
            ("icon", "color", "category", "boardFace", "statusNote", "attention", "ttlMinutes"), "sessions don't have it"
        ),
        "expectedMarkedUnreadAt": "sessions can't be marked as unread",
        **dict.fromkeys(("spawnedBy", "completionOwnerSessionKey"), "only agents can spawn sessions"),
        "expectedLifecycleRevision": "use expectedSessionId",
        "elevatedLevel": POLICY_ONLY,
        **dict.fromkeys(("sendPolicy", "groupActivation"), "there are no messaging channels"),
        "traceLevel": "use runs.events for the complete log of a run",
    }

    label: str | None = Field(None, max_length=512)
    title: str | None = Field(None, max_length=200)
    model: str | None = Field(None, max_length=200)
    thinking_level: ThinkingLevel | None = None
    verbose_level: Literal["off", "on", "full"] | None = None
    reasoning_level: Literal["off", "on", "stream"] | None = None
    response_usage: Literal["off", "tokens", "full", "on"] | None = None
    pinned: bool | None = None
    archived: bool | None = None
    unread: Literal[False] | None = None  # marks it as read, like sessions.read


class NewSession(Params):
    key: Key | None = None
    agent_id: Id | None = None
    label: str = Field("", max_length=512)
    display_name: str = Field("", max_length=200)
    model: str = Field("", max_length=200)
    thinking_level: ThinkingLevel | None = None
    idempotency_key: IdempotencyKey | None = None  # only needed without `key`, which already makes the request idempotent
