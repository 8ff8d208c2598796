"""The part of docs/protocol.md that people write; protocol_docs.py adds what the code knows."""

INTRODUCTION = """\
# The WebSocket protocol

This page is printed by `claw protocol-docs` from the declarations the gateway runs on; only the introduction is written by
hand. The same as JSON Schema: `/api/protocol.json`.

## Connecting

One endpoint: `/ws`, or the bare origin. One JSON object per text frame; binary frames are not used.

| frame | properties |
| --- | --- |
| request | `type: "req"`, `id`, `method`, `params?`, `idempotencyKey?` (protocol 1), `traceparent?` (W3C's) |
| response | `type: "res"`, `id`, `ok`, `payload?`, `error? {code, message, details?, retryable?, retryAfterMs?}` |
| event | `type: "event"`, `event`, `seq` (not on `connect.challenge`), `payload`, `stateVersion?` |

The server opens with the event `connect.challenge {nonce, ts}`. The client's first frame is the request `connect`, within 15 s
and in at most 64 KiB:

```json
{"type": "req", "id": "1", "method": "connect", "params": {
  "minProtocol": 4, "maxProtocol": 4,
  "client": {"id": "my-program", "version": "1.0", "platform": "linux", "mode": "backend"},
  "scopes": ["operator.read", "operator.write"], "caps": ["tool-events"], "auth": {"token": "claw_…"}}}
```

Protocols 1, 3 and 4 are spoken; the newest inside the client's range is chosen. 1 is the protocol of the first articles about
OpenClaw, 3 and 4 are those of its own clients. Any `client.id` is accepted; properties of `connect` we do not know are passed over.

**Who is it?** A browser is known by its sign-in cookie; its `Origin` must be one of CLAWSITE_ORIGINS, scheme, host and port
each exact. A program brings a personal token or the gateway token in `auth.token` (or `auth.password`); it may leave `Origin`
out. A page of another program brings a token too; its `Origin` must be one of CLAWSITE_CLIENT_ORIGINS, its cookie counts for
nothing. Any other `Origin` is refused, whatever the token. After five failures an address has to wait (`AUTH_RATE_LIMITED`). A
client may also be a device, with a key of its own: it signs the challenge in `device {id, publicKey, signature, signedAt,
nonce}`, is known to an account by pairing, and is given a token of its own in `auth.deviceToken`. How that works is in
[devices.md](devices.md).

**Roles.** `operator`, which nearly everybody is, or `node`: a device that carries out commands, has no scopes, and may call the
methods marked so below. A method of the other role is answered with `unauthorized role` (FORBIDDEN).

**What may it do?** The scopes of the account, narrowed by the token, narrowed by `scopes` if that list is not empty. Asking for
more yields what the account has. `operator.write` includes `operator.read`; nothing else follows from another scope. Where a
method names two scopes, either is enough. The account is looked at again at once when it changes, and at least every minute; a
credential that is no longer good closes with 4001.

The answer is `hello-ok`: the chosen `protocol`, `server`, `features {methods, events, capabilities}`, a `snapshot` of presence,
health and the log's `epoch`, `auth {role, scopes, deviceToken?}`, and `policy {maxPayload, maxBufferedBytes, tickIntervalMs,
attachments}`. Protocol 1 also gets `version`, `caps`, `permissions` and `session {sessionId, sessionKey}`, which names the main
session of the default agent (its `sessionId` is null until somebody has written in it).

Refusals are an error frame and a close, in this order of checks: frame, method, parameters, protocol (1002), role, origin,
credential, device, pairing (1008). `error.details.code` is one of `PROTOCOL_MISMATCH`, `CONTROL_UI_ORIGIN_NOT_ALLOWED`,
`AUTH_REQUIRED`, `AUTH_TOKEN_MISMATCH`, `AUTH_DEVICE_TOKEN_MISMATCH`, `AUTH_RATE_LIMITED`, `DEVICE_IDENTITY_REQUIRED`,
`PAIRING_REQUIRED`, or one of `DEVICE_AUTH_…`.

## Requests

Every request is worked on by itself, so answers may overtake each other and events may come before the answer. Requests that open
runs in one session are begun in their order of arrival. At most 64 requests of one connection are in flight; a burst is taken at
the speed of its answers, and what finds no place within two seconds gets a retryable `UNAVAILABLE`. Parameters are closed: an
unknown one is an error, and one of OpenClaw's for something that does not exist here is refused with the reason, unless it is
empty. A missing scope is FORBIDDEN. Clients of protocol 3 do not know this code and get INVALID_REQUEST instead. A bad frame after
the handshake, also one with more than 300,000 values in it, is answered with its id, or `"invalid"`, and the connection stays open.

`sessionKey` names a session among one's own (`main` is `agent:main:main`); somebody else's session, where one may see it, is named
by `sessionId`. What one may not see does not exist: NOT_FOUND.

**Idempotency.** `agent` and `chat.send` need an `idempotencyKey`; it becomes the `runId`. The same key again never
starts a second run, in any process and after any restart: it gets the answer of the first. The same key with another body is a
CONFLICT. `node.invoke` keeps the same promise for what a node is asked, and `sessions.create` for a session without a `key`.

**`agent` answers twice** with the same id: `{runId, status: "accepted"}` once the run is stored, and `status: "ok"` with the result
when it has ended, or an error with `payload.status: "error"`. In protocol 1 the words are `pending`, `complete` and `error`.

## Events

`seq` counts the events of one connection from 1 without a gap. A client that reads too slowly first loses events that may be lost
(marked below) and then its connection: 1008, `slow consumer, last seq N`; at most 1 MiB or 1,000 frames wait for it.

- `agent` is the log of a run: `{runId, seq, stream, ts, sessionKey, sessionId, cursor, data}`. This `seq` counts the run's events,
  `cursor` those of the session, both without a gap. Its last event is `lifecycle` with phase `end` (`aborted: true` for an abort)
  or `error`.
- `chat` tells the same for clients that only show text: `delta` repeats the whole text so far, at most every 75 ms, then `final`,
  `aborted` or `error`.
- `session` is an event of the log that belongs to no run; it has a `cursor` too.
- Owner and members of a session are told on all their connections. With the cap `session-scoped-events` a connection is told only
  about sessions it follows; who may read everybody's sessions is told only about those anyway.

| stream | `data` |
| --- | --- |
| `lifecycle` | `phase` accepted, start, waiting, resume, rescued, retry, end or error, with what belongs to each |
| `assistant` | `{messageId, attempt, delta, offset}` |
| | `{messageId, attempt, reset: true}`: the model is asked again, what was shown of that message is void |
| | `{messageId, attempt, final: true, message}`: it is stored |
| `thinking` | `{messageId, attempt, delta, offset}` |
| `toolcall` | `{messageId, attempt, index, name, delta, offset}`: a call while the model writes it; needs `tool-events` |
| `tool` | `phase` start `{name, toolCallId, args}`, update `{partialResult}` or result `{isError, result, meta?}` |
| | `phase` waiting `{name, toolCallId, args, approval}`: people are asked |
| | `phase` decided `{name, toolCallId, approval}`: they have answered, or nobody did in time |
| `compaction` | `phase` start `{reason, tokensBefore, summarised}` or end `{completed, willRetry, reason}` |
| | when `completed`, the end has `{messageId, text, summarised, kept, tokensBefore, tokensAfter}` too |

Protocols 3 and 4 are told the stream `tool` only with the cap `tool-events`; protocol 1 gets the event `tool` besides.

## Catching up

A client remembers the `cursor` of the last event it has seen, and the `epoch` of the log in which it counts. After a break it asks
`sessions.history {sessionKey, fromStateVersion: cursor, epoch}` and gets every event since, each once and in order; while `more` is
true it asks again from the answer's `cursor`. An ISO time works in place of a cursor. Or it lets the server do it:
`sessions.messages.subscribe {key, fromStateVersion, epoch}` sends what was missed as events, followed by the live ones; with the
cap `session-scoped-events` each comes once and in order.

`resync_required` says honestly that the events are no longer kept (those of runs that ended 30 days ago are deleted), or that the
cursor belongs to another log: read `chat.history` anew. The `epoch` is the same for all sessions and outlives restarts; it
changes when the database was restored from a backup, after which old numbers are given to other events. It is told in `hello-ok`
and beside the cursor in `chat.history`, `sessions.history` and `sessions.messages.subscribe`,
there with a part for the session. A client that does not send it is told to resync only while its cursor is ahead of
the log.

Questions about commands are state, not only events: `approvals` in the answers of `sessions.messages.subscribe`,
`sessions.history`, `chat.history` and `chat.startup` holds those of the session that are open now, so that nobody waits for one
that was asked while they were away. Lists of who is online carry a version, `stateVersion.presence`, in `hello-ok` and on every
event: a list with a lower one than the last is old and can be passed over. It begins anew with each process (`server.bootId`).

Who follows messages instead of events, as OpenClaw's clients do, keeps the `deltaCursor` of the newest page of `chat.history` and
gives it back as `cursor`: `{kind: "delta"}` has every message since, each as `session.message` tells it live, and `{kind: "reset"}`
says that the page has to be read again.

`chat.history` is the way in for a client that remembers nothing. Its `cursor` was read before its messages, so live events after it
are news; `activeRun` holds the text of the answer that is being written, up to its `seq`: events of that run up to this `seq` are
already in it.

## Differences from OpenClaw

- `agent` events of stream `assistant` carry `delta` and `offset` (characters before it), not the whole text again.
- Events are kept and can be read again; `cursor`, `epoch`, `sessionId`, `resync_required`, `nextCursor` and
  `activeRun` are additions.
- Ticks come every 15 s.
- Payloads match the JSON Schema that OpenClaw publishes, but for additional properties; tests/protocol/openclaw has the list.
- Protocol 1 frames carry the session's cursor as `stateVersion`; protocols 3 and 4 have `{presence, health}` there, on the events
  of these names.
- Scopes are OpenClaw's, with three exceptions. `chat.inject`, `sessions.reset`, `sessions.compact` and `agents.files.set` need
  `operator.write` instead of `operator.admin`, because they reach only sessions and workspaces of the caller's own. So do the
  methods whose scope OpenClaw derives from their parameters, such as `agent` and `sessions.patch`. Who asked a question about a
  command sees it with `operator.read`; grants are looked after with `operator.admin` too.
- In sessions.patch no field changes what commands an agent may run; that is decided by people in the admin.
- A device belongs to an account. One that comes with a good credential of an account is paired at once, also from elsewhere; a
  node never is. `node.allow`, `node.broadcast` and `otherCommands` are additions; `node.pair.request` and
  `node.pair.verify` do not exist.
- Every other method that OpenClaw has and Clawsite has not is in [a table](openclaw-clients.md#methods-that-are-not-here), with
  the reason.
"""
