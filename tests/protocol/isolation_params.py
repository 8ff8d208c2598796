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

# Parameters with a different meaning in one method.
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
    ("node.invoke.result", "id"): None,  # of an invocation; nodes can only answer their own
    ("node.invoke.result", "nodeId"): None,
    # Text that is stored, not searched for.
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

# Values of required parameters. Idempotency keys are new for every call.
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

# Where `name` has a different meaning.
OF_FILES = {"name": MEMORY_FILE}
EXAMPLES_OF_METHOD: dict[str, dict[str, Any]] = {"agents.files.get": OF_FILES, "agents.files.set": OF_FILES}

# Also where optional: no run ends and no request is decided here.
SHORT_TIMEOUTS: dict[str, dict[str, Any]] = {
    "agent.wait": {"timeoutMs": 1},
    "tools.invoke": {"timeoutMs": 1},
    "sessions.compact": {"timeoutMs": 1},
    "exec.approval.request": {"twoPhase": True},
}

# Methods whose token scope grants access to all users' objects, and why. They are not checked for leaks: callers with the scope may
# see everything, and all others are denied.
PRIVILEGED = {
    "exec.approval.resolve": "approvers see and decide all requests",
    "exec.approval.extend": "the same",
    "approval.get": "the same",
    "approval.resolve": "the same",
    "approval.history": "the same",
    "exec.approval.grants.list": "grants apply to all users of an agent; approvers and operators manage them",
    "exec.approval.grants.revoke": "the same",
    "exec.approvals.get": "exec rules belong to no user",
    "exec.approvals.set": "the same",
    "panic.stop": "operators can freeze everything, an agent or any run",
    "panic.resume": "the same",
}

# Parameters for which the caller's own object and an unknown one get the same response, and why that is correct.
SAME_RESPONSE = {
    ("sessions.create", "key"): "an existing session is returned like a new one",
    ("exec.approval.request", "id"): "an ID chosen by the client",
    ("exec.approval.request", "sessionKey"): "shown to the approver, not looked up",
    ("exec.approval.request", "sessionId"): "the same",
    ("exec.approval.request", "runId"): "the same",
    ("sessions.messages.unsubscribe", "key"): "the result is the same for any session",
    ("sessions.messages.unsubscribe", "sessionId"): "the same",
    ("commands.list", "sessionKey"): "the commands are the same in all sessions",
    ("models.list", "sessionKey"): "the models are the same in all sessions",
    ("chat.metadata", "sessionKey"): "only the agent in the key is used",
    ("panic.status", "sessionKey"): "no object of the caller is frozen",
    ("panic.status", "sessionId"): "the same",
}
