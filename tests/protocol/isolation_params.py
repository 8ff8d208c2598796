"""What kind of object each method parameter refers to. Read by test_isolation.py.

Parameters under PLAIN don't refer to an object: numbers, choices, text to store. A parameter that is in none of the tables fails
the test, so every new parameter must be listed.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.harness.owned_objects import MEMORY_FILE

MAIN = "agent:main:main"


@dataclass(frozen=True)
class Ref:
    """A reference to an object of one of these kinds. `beside` are other required parameters."""

    kinds: tuple[str, ...]
    shape: Any = None  # how the ID is wrapped; NAME stands for it
    beside: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Own:
    """Replaced by the ID of an object of the caller."""

    kind: str


NAME = object()


def ref(*kinds: str, shape: Any = NAME, **beside: Any) -> Ref:
    return Ref(kinds, shape, beside)


SESSION = ref("shared key", "own key", "session id")
SESSION_ID = ref("session id")
RUN_ID = ref("run id", "open run id")
APPROVAL = ref("approval id")

# Parameters with the same meaning in all methods.
REFS: dict[str, Ref] = {
    "sessionKey": SESSION,
    "key": SESSION,
    "sessionId": SESSION_ID,
    "spawnedBy": SESSION,
    "parentSessionKey": SESSION,
    "expectedSessionId": ref("session id", "generation id", key=Own("own key")),
    "expectedExistingSessionId": ref("session id", "generation id", sessionKey=Own("own key")),
    "sessionKeys": ref("shared key", "own key", shape=[NAME]),
    "keys": ref("shared key", "own key", shape=[NAME]),
    "runId": RUN_ID,
    "requestId": ref("pairing id", "node's pairing id"),
    "deviceId": ref("device id"),
    "nodeId": ref("device id"),
    "nodeIds": ref("device id", shape=[NAME]),
    "attachments": ref("attachment id", shape=[{"id": NAME}]),
    "label": ref("label"),
    "search": ref("words", "label"),
    "query": ref("words"),
}

# Parameters that mean something of their own in one method.
REFS_BY_METHOD: dict[tuple[str, str], Ref | None] = {
    ("chat.abort", "runId"): ref("open run id", sessionKey=Own("open key")),
    ("chat.history", "around"): ref("message id", sessionKey=Own("own key")),
    ("chat.history", "inputRunIds"): ref("run id", shape=[NAME], sessionKey=Own("own key")),
    ("chat.send", "replaces"): ref("message id", sessionKey=Own("own key")),
    ("sessions.fork", "messageId"): ref("message id", key=Own("own key")),
    ("runs.get", "id"): ref("run number", "open run number"),
    ("runs.events", "id"): ref("run number"),
    ("panic.stop", "subject"): ref("open run number", scope="run"),
    ("panic.resume", "subject"): ref("open run number", scope="run"),
    ("device.token.rotate", "deviceId"): ref("device id", role="node"),
    ("device.token.revoke", "deviceId"): ref("device id", role="node"),
    ("exec.approval.get", "id"): APPROVAL,
    ("exec.approval.resolve", "id"): APPROVAL,
    ("exec.approval.extend", "id"): APPROVAL,
    ("exec.approval.drop", "id"): APPROVAL,
    ("exec.approval.waitDecision", "id"): APPROVAL,
    ("exec.approval.request", "id"): APPROVAL,
    ("approval.get", "id"): APPROVAL,
    ("approval.resolve", "id"): APPROVAL,
    ("approval.history", "cursor"): APPROVAL,
    ("exec.approval.grants.revoke", "grantId"): ref("grant id"),
    ("sessions.create", "parentSessionKey"): ref("shared key", "own key", "session id", fork=True),
    ("node.invoke.result", "id"): None,  # of what a node was asked; a node says who it is, and is believed for itself only
    ("node.invoke.result", "nodeId"): None,
    # Words that are stored, not looked for.
    ("agent", "label"): None,
    ("chat.inject", "label"): None,
    ("device.pair.rename", "label"): None,
    ("sessions.create", "label"): None,
    ("sessions.patch", "label"): None,
}

PLAIN = {
    *("activeMinutes", "after", "afterSeq", "agentId", "agentScope", "allowMissing", "archived", "args", "ask"),
    *("baseHash", "before", "blocks", "channel", "clearQueued", "command", "configuredAgentsOnly", "confirm", "content"),
    *("conversationReadOrigin", "cursor", "cwd", "days", "decision", "deleteTranscript", "deliver", "displayName"),
    *("emitCommandHooks", "emitLifecycleHooks", "endDate", "epoch", "everybody", "expectedLeafEntryId"),
    *("extraSystemPrompt", "file", "for", "fork", "fromStateVersion", "groupBy", "history", "host"),
    *("instructions", "kind", "maxLines"),
    *("html", "idempotencyKey", "includeApprovals", "includeArgs", "includeChannelSummary", "includeCliProjection"),
    *("includeContextWeight", "includeDerivedTitles", "includeDetails", "includeGlobal", "includeHistorical"),
    *("includeLastMessage", "includePlugins", "includeProviderCapabilities", "includeUnknown", "lane", "limit"),
    *("maxBytes", "maxChars", "message", "mode", "model", "name", "notices", "offset", "own", "pinned", "planHash"),
    *("preparedOnly", "preserveSideRuns", "probe", "provider", "queueMode", "range", "reason", "reasoningLevel"),
    *("refresh", "resolvedPath", "responseUsage", "role", "scope", "security", "sortBy", "startDate"),
    *("status", "subject", "succeedsParent", "suppressCommandInterpretation", "text", "thinking", "thinkingLevel"),
    *("timeZone", "timeout", "timeoutMs", "title", "to", "toolCallId", "twoPhase", "username", "utcOffset"),
    *(
        "verboseLevel",
        "view",
        "withdraw",
        "forkFrom",
        "owner",
        "commands",
        "scopes",
        "params",
        "ok",
        "payload",
        "payloadJSON",
        "error",
        "event",
        "includeDefaultModels",
        "ownerFirst",
        "unread",
    ),
}

# What a method needs to be called at all; a key is made anew for every call.
EXAMPLES: dict[str, Any] = {
    "agentId": "main",
    "message": "hello",
    "decision": "deny",
    "reason": "no",
    "scope": "run",
    "command": "ls",
    "name": "session_status",
    "username": "the-third",
    "role": "viewer",
    "file": {},
    "baseHash": "x",
    "blocks": [],
    "query": "hello",
    "title": "hello",
    "mode": "now",
    "text": "hello",
    "content": "hello",
    "commands": [],
    "label": "hello",
    "event": "hello",
    "displayName": "hello",
    "kind": "exec",
}

# Where a name means something else than in the other methods.
OF_FILES = {"name": MEMORY_FILE}
EXAMPLES_OF_METHOD: dict[str, dict[str, Any]] = {"agents.files.get": OF_FILES, "agents.files.set": OF_FILES}

# Said also where it may be left out: nobody here ends a run or answers a question.
SHORT_TIMEOUTS: dict[str, dict[str, Any]] = {
    "agent.wait": {"timeoutMs": 1},
    "tools.invoke": {"timeoutMs": 1},
    "sessions.compact": {"timeoutMs": 1},
    "exec.approval.request": {"twoPhase": True},
}

# Methods whose scope is a right over what is everybody's or nobody's, and why. No caller has the scope and only their own things
# behind it, so that there is nothing to keep apart: such calls are refused to all others, whatever they name.
OF_OFFICE = {
    "exec.approval.resolve": "who may approve answers everybody's questions, and is shown all of them",
    "exec.approval.extend": "the same",
    "approval.get": "the same",
    "approval.resolve": "the same",
    "approval.history": "the same",
    "exec.approval.grants.list": "grants are for everybody who uses an agent; approvers and operators look after them",
    "exec.approval.grants.revoke": "the same",
    "exec.approvals.get": "the exec rules of the installation are nobody's",
    "exec.approvals.set": "the same",
    "panic.stop": "who administers the gateway stops everything, an agent or anybody's run",
    "panic.resume": "the same",
}

# Parameters for which the caller's own thing and nothing at all are answered alike, and why that is right.
SAME_RESPONSE = {
    ("sessions.create", "key"): "what is there is told as what was made",
    ("exec.approval.request", "id"): "a program's own name for its question",
    ("exec.approval.request", "sessionKey"): "said to the approver, not looked up",
    ("exec.approval.request", "sessionId"): "the same",
    ("exec.approval.request", "runId"): "the same",
    ("sessions.messages.unsubscribe", "key"): "afterwards it is not followed, whatever it was",
    ("sessions.messages.unsubscribe", "sessionId"): "the same",
    ("commands.list", "sessionKey"): "the commands are the same in all sessions",
    ("models.list", "sessionKey"): "so are the models",
    ("chat.metadata", "sessionKey"): "only the agent in its name counts",
    ("panic.status", "sessionKey"): "nothing of the caller's is stopped",
    ("panic.status", "sessionId"): "the same",
}
