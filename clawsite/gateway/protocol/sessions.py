"""A session as lists and answers show it: shapes only. What is in them is read in sessions_app/sessions/selectors.py."""

from typing import Any, NotRequired

from sessions_app.sessions.marks import SessionRowState


class SessionFacts(SessionRowState):
    """`id` stays; `sessionId` changes with every reset. `pinned`, `archived` and `unread` are the caller's own."""

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
    """With what only clients of the gateway ask for: their own settings, the last words, and the runs at work."""

    chatType: str
    reasoningLevel: NotRequired[str]
    responseUsage: NotRequired[str]
    elevatedLevel: NotRequired[str]
    sendPolicy: NotRequired[str]
    groupActivation: NotRequired[str]
    lastMessagePreview: NotRequired[str]
    hasActiveRun: NotRequired[bool]
    activeRunIds: NotRequired[list[str]]
