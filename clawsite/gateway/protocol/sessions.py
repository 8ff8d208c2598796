"""Types of sessions in lists and responses. `sessions_app.sessions.selectors` reads the data."""

from typing import Any, NotRequired

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
