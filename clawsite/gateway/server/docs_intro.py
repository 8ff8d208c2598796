"""The handwritten introduction of docs/protocol.md; `docs.py` generates the rest."""

INTRODUCTION = """\
# The WebSocket protocol

`claw protocol-docs` generates this page from the gateway's own declarations; only this introduction is written by
hand. The same information is available as JSON Schema: `/api/protocol.json`.

## Connecting

There is one endpoint: `/ws`, or the bare origin. Each text frame is one JSON object; binary frames are not used.

| frame | properties |
| --- | --- |
| request | `type: "req"`, `id`, `method`, `params?`, `idempotencyKey?` (protocol 1), `traceparent?` (W3C) |
| response | `type: "res"`, `id`, `ok`, `payload?`, `error? {code, message, details?, retryable?, retryAfterMs?}` |
| event | `type: "event"`, `event`, `seq` (not on `connect.challenge`), `payload`, `stateVersion?` |

The server starts with the event `connect.challenge {nonce, ts}`. The client's first frame must be the request
`connect`, within 15 s and at most 64 KiB:

```json
{"type": "req", "id": "1", "method": "connect", "params": {
  "minProtocol": 4, "maxProtocol": 4,
  "client": {"id": "my-program", "version": "1.0", "platform": "linux", "mode": "backend"},
  "scopes": ["operator.read", "operator.write"], "caps": ["tool-events"], "auth": {"token": "claw_…"}}}
```

The gateway supports protocols 1, 3 and 4 and chooses the newest one in the client's range. Protocol 1 is described in
early articles about OpenClaw; 3 and 4 are used by its own clients. Any `client.id` is accepted; unknown properties of
`connect` are ignored.

**Authentication.** A browser is identified by its sign-in cookie; its `Origin` must be one of CLAWSITE_ORIGINS, with
scheme, host and port matching exactly. A program sends an access token or the gateway token in `auth.token` (or
`auth.password`) and can omit `Origin`. A page of another program also sends a token; its `Origin` must be one of
CLAWSITE_CLIENT_ORIGINS, and its cookie is ignored. Any other `Origin` is rejected, whatever the token. After five
failures an address has to wait (`AUTH_RATE_LIMITED`). A client can also be a device with its own key pair: it signs
the challenge in `device {id, publicKey, signature, signedAt, nonce}`, is paired with an account, and gets a device
token in `auth.deviceToken`. See [devices.md](devices.md).

**Roles.** Nearly every client is an `operator`. A `node` is a device that runs commands; it has no scopes and can
only call the methods marked for nodes below. A call to a method of the other role returns `unauthorized role`
(FORBIDDEN).

**Scopes.** A connection has the scopes of the account, narrowed by the token, and narrowed by `scopes` if that list
is not empty. A client that requests more scopes gets those that the account has. `operator.write` includes
`operator.read`; no other scope includes another. If a method declares two scopes, either is enough. The account is
checked again immediately when it changes, and at least every minute. If the credentials are no longer valid, the
connection is closed with 4001.

The response is `hello-ok`: the chosen `protocol`, `server`, `features {methods, events, capabilities}`, a `snapshot`
of presence, health and the log's `epoch`, `auth {role, scopes, deviceToken?}`, and `policy {maxPayload,
maxBufferedBytes, tickIntervalMs, attachments}`. Protocol 1 also gets `version`, `caps`, `permissions` and `session
{sessionId, sessionKey}`, which identifies the main session of the default agent (its `sessionId` is null until its
first message).

A rejected connection gets an error frame and is closed. The checks are made in this order: frame, method, parameters,
protocol (1002), role, origin, credentials, device, pairing (1008). `error.details.code` is one of
`PROTOCOL_MISMATCH`, `CONTROL_UI_ORIGIN_NOT_ALLOWED`, `AUTH_REQUIRED`, `AUTH_TOKEN_MISMATCH`,
`AUTH_DEVICE_TOKEN_MISMATCH`, `AUTH_RATE_LIMITED`, `DEVICE_IDENTITY_REQUIRED`, `PAIRING_REQUIRED`, or one of
`DEVICE_AUTH_…`.

## Requests

Requests are handled concurrently, so responses can arrive in a different order and events can arrive before the
response. Requests that start runs in one session are started in their order of arrival. A connection can have at most
64 requests in flight. Further requests wait for a free slot, and after two seconds get a retryable `UNAVAILABLE`.
Unknown parameters are errors, and an OpenClaw parameter for a feature that does not exist here is rejected with the
reason, unless it is empty. A missing scope is FORBIDDEN. Protocol 3 clients don't know this code and get
INVALID_REQUEST instead. An invalid frame after the handshake, including one with more than 300,000 values, gets an
error response with its id, or `"invalid"`, and the connection stays open.

Programs should check `error.code` and `error.details`. `error.message` is for people. It is in the language of the
`locale` sent with `connect` if that is supported (`zh-CN`), otherwise in English.

`sessionKey` identifies one of the caller's own sessions (`main` is `agent:main:main`). Another user's session, if the
caller can see it, is identified by `sessionId`. Anything the caller can't see is NOT_FOUND.

**Idempotency.** `agent` and `chat.send` need an `idempotencyKey`; it becomes the `runId`. The same key never starts a
second run, in any process and after any restart: it returns the response of the first request. The same key with a
different body is a CONFLICT. `node.invoke` guarantees the same for invocations, and `sessions.create` for sessions
without a `key`.

**`agent` responds twice** with the same id: `{runId, status: "accepted"}` once the run is stored, and `status: "ok"`
with the result when it has ended, or an error with `payload.status: "error"`. In protocol 1 the values are `pending`,
`complete` and `error`.

## Events

`seq` counts the events of one connection from 1 without gaps. A client that reads too slowly first misses droppable
events (marked below) and then loses its connection: 1008, `slow consumer, last seq N`. At most 1 MiB or 1,000 frames
are queued for it.

- `agent` is the event log of a run: `{runId, seq, stream, ts, sessionKey, sessionId, cursor, data}`. This `seq`
  counts the run's events, `cursor` those of the session, both without gaps. The last event is `lifecycle` with phase
  `end` (`aborted: true` if the run was stopped) or `error`.
- `chat` reports the same to clients that only show text: `delta` repeats the whole text so far, at most every 75 ms,
  then `final`, `aborted` or `error`.
- `session` is a log event that belongs to no run; it has a `cursor` too.
- Owner and members of a session get its events on all their connections. With the cap `session-scoped-events` a
  connection only gets events of sessions it subscribed to. Users who can read everyone's sessions only get events of
  other users' sessions that they subscribed to.

| stream | `data` |
| --- | --- |
| `lifecycle` | `phase` accepted, start, waiting, resume, rescued, retry, end or error, with the details of each |
| `assistant` | `{messageId, attempt, delta, offset}` |
| | `{messageId, attempt, reset: true}`: the model is called again; discard what was shown of that message |
| | `{messageId, attempt, final: true, message}`: the message is stored |
| `thinking` | `{messageId, attempt, delta, offset}` |
| `toolcall` | `{messageId, attempt, index, name, delta, offset}`: a tool call while it streams; needs `tool-events` |
| `tool` | `phase` start `{name, toolCallId, args}`, update `{partialResult}` or result `{isError, result, meta?}` |
| | `phase` waiting `{name, toolCallId, args, approval}`: the call needs approval |
| | `phase` decided `{name, toolCallId, approval}`: the approval request was decided or expired |
| `compaction` | `phase` start `{reason, tokensBefore, summarised}` or end `{completed, willRetry, reason}` |
| | if `completed`, the end also has `{messageId, text, summarised, kept, tokensBefore, tokensAfter}` |

Protocols 3 and 4 only get the stream `tool` with the cap `tool-events`; protocol 1 also gets the event `tool`.

## Catching up

A client remembers the `cursor` of the last event it has seen, and the `epoch` of the log that the cursor belongs to.
After a lost connection it calls `sessions.history {sessionKey, fromStateVersion: cursor, epoch}` and gets every event
since, each once and in order; while `more` is true it calls again from the `cursor` of the response. An ISO time
works in place of a cursor. Alternatively the server sends the events: `sessions.messages.subscribe {key,
fromStateVersion, epoch}` sends what was missed as events, followed by the live ones; with the cap
`session-scoped-events` each arrives once and in order.

`resync_required` means that the events are no longer kept (events are deleted 30 days after their run ended), or that
the cursor belongs to another log: reload `chat.history`. The `epoch` is the same for all sessions and survives
restarts. It changes when the database was restored from a backup, because old numbers are then assigned to other
events. It is part of `hello-ok` and comes with the cursor in `chat.history`, `sessions.history` and
`sessions.messages.subscribe`, where it also has a part for the session. A client that does not send it is only asked
to resync while its cursor is ahead of the log.

Approval requests are state, not only events: `approvals` in the responses of `sessions.messages.subscribe`,
`sessions.history`, `chat.history` and `chat.startup` has the session's pending requests, so that a client doesn't
miss one that was made while it was disconnected. Presence lists have a version, `stateVersion.presence`, in
`hello-ok` and on every event: ignore a list with a lower version than the last one you received. The version restarts
with each process (`server.bootId`).

Clients that subscribe to messages instead of events, as OpenClaw's do, keep the `deltaCursor` of the newest page of
`chat.history` and send it back as `cursor`: `{kind: "delta"}` has every message since, in the same form as in
`session.message`, and `{kind: "reset"}` means that the page must be reloaded.

`chat.history` is the starting point for a client without a cursor. Its `cursor` was read before its messages, so live
events after it are new. `activeRun` has the text so far of the answer in progress: it includes the run's events up to
its `seq`.

## Differences from OpenClaw

- `agent` events of the stream `assistant` have `delta` and `offset` (the number of characters before the delta)
  instead of repeating the whole text.
- Events are kept and can be read again; `cursor`, `epoch`, `sessionId`, `resync_required`, `nextCursor` and
  `activeRun` are additions.
- Ticks are sent every 15 s.
- Payloads match the JSON Schema that OpenClaw publishes, except for additional properties; the tests in
  `tests/protocol/openclaw` have the list.
- Protocol 1 frames have the session's cursor as `stateVersion`; protocols 3 and 4 have `{presence, health}` there, on
  the events with these names.
- Scopes are OpenClaw's, with three exceptions. `chat.inject`, `sessions.reset`, `sessions.compact` and
  `agents.files.set` need `operator.write` instead of `operator.admin`, because they only reach the caller's own
  sessions and workspaces. The same applies to methods whose scope OpenClaw derives from their parameters, such as
  `agent` and `sessions.patch`. The requester can see an approval request with `operator.read`, and grants can also be
  managed with `operator.admin`.
- No field of `sessions.patch` changes which commands an agent can run; operators decide that in the admin.
- A device belongs to an account. A device with valid credentials of an account is paired immediately, also from
  another host; a node never is. `node.allow`, `node.broadcast` and `otherCommands` are additions; `node.pair.request`
  and `node.pair.verify` don't exist.
- All other OpenClaw methods that Clawsite does not have are listed with the reason in [a
  table](openclaw-clients.md#methods-that-are-not-available).
"""
