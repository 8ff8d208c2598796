/**
 * The gateway protocol in the browser: one WebSocket that reconnects automatically.
 *
 * Matches responses to requests, detects silence and lost frames, and reports its state. It knows nothing about sessions (see
 * feed.js) or pages and has no imports, so that other pages can use it: docs/clients.md.
 *
 * @typedef {object} State
 * @property {"connecting" | "ready" | "waiting" | "offline" | "signed-out" | "refused" | "outdated" | "closed"} name
 *   signed-out, refused, outdated and closed are final: there are no more attempts.
 * @property {object} [hello] for ready: the server's hello-ok, with its methods, scopes and limits
 * @property {number} [until] for waiting and offline: time of the next attempt, in ms since 1970
 * @property {string} [why] for refused: the server's message
 *
 * @typedef {object} Options
 * @property {string} url such as wss://claw.example.org/ws; the server must allow the page's origin
 * @property {string} [token] a personal access token; without one, the browser's sign-in is used
 * @property {{id: string, version?: string, platform?: string, mode?: string, instanceId?: string}} [client] identifies the client
 * @property {string[]} [caps] such as tool-events, session-scoped-events
 * @property {string[]} [scopes] a subset of the account's scopes; empty for all
 * @property {(state: State) => void} [onState]
 * @property {(name: string, payload: object) => void} [onEvent] every event, in order
 * @property {() => void} [onGap] events of this connection were lost: catch up (feed.js does)
 */

const PROTOCOL = 4;
const REQUEST_MS = 30_000;
const HANDSHAKE_MS = 15_000;
const FIRST_RETRY_MS = 250; // a restarted server is often back quickly
const MAX_RETRY_MS = 15_000;
const TICK_MS = 30_000; // until hello-ok sets it

/** Close codes that this client sends, and those of the server after which a retry is pointless. */
const CLOSE = { normal: 1000, protocol: 1002, policy: 1008, stalled: 4000 };
const DEFAULT_CLIENT = { id: "browser", version: "1", platform: "web", mode: "ui" };
const noop = () => {};

/** A failed request. `code` is the server's error code, DISCONNECTED or TIMEOUT. */
export class GatewayError extends Error {
  constructor({ code, message, details = null, retryable = false, retryAfterMs = null }) {
    super(message);
    Object.assign(this, { code, details, retryable, retryAfterMs });
  }
}

/** Delay before the nth retry: up to 250 ms, 1 s, then doubling to 15 s, half of it random so that clients spread out. */
export function retryDelay(attempt, random = Math.random()) {
  const maxDelay = attempt === 0 ? FIRST_RETRY_MS : FIRST_RETRY_MS * 2 ** (attempt + 1);
  return Math.min(maxDelay, MAX_RETRY_MS) * (0.5 + random / 2);
}

/** Random hex digits for keys. `crypto.randomUUID` exists on secure origins only. */
export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Gateway {
  /** @param {Options} options */
  constructor({ url, token = "", client = DEFAULT_CLIENT, caps = [], scopes = [], onState = noop, onEvent = noop, onGap = noop }) {
    Object.assign(this, { url, token, client, caps, scopes, onState, onEvent, onGap });
    this.socket = null;
    this.ready = false;
    this.pending = new Map();
    this.lastId = 0;
    this.attempts = 0;
    this.retryTimer = null;
    this.handshakeTimer = null;
    this.silenceTimer = null;
    this.handleOnline = () => this.retry();
    globalThis.addEventListener?.("online", this.handleOnline);
  }

  /** Connect and stay connected. */
  start() {
    this.#open();
  }

  /** Retry now instead of waiting. */
  retry() {
    if (this.retryTimer) this.#open();
  }

  /** Reconnect to get a new hello-ok. */
  renew() {
    if (this.ready) this.#abandon("renew");
  }

  /** Disconnect permanently. Pending requests are rejected. */
  close() {
    globalThis.removeEventListener?.("online", this.handleOnline);
    this.#dropSocket(CLOSE.normal, "");
    clearTimeout(this.retryTimer);
    this.retryTimer = null;
    this.#rejectPending();
    this.onState({ name: "closed" });
  }

  /**
   * Send a request and resolve with the response payload. Rejects with a GatewayError, even on disconnect: nothing is sent twice.
   * Methods that change something take an idempotencyKey, which makes retries safe.
   * `agent` responds twice, with `accepted` and at the end of its run: `expectFinal` waits for the second, within `timeoutMs`.
   *
   * @param {string} method @param {object} [params]
   * @param {{timeoutMs?: number, expectFinal?: boolean}} [options] @returns {Promise<object>}
   */
  request(method, params = {}, { timeoutMs = REQUEST_MS, expectFinal = false } = {}) {
    if (!this.ready) return Promise.reject(createDisconnectedError());
    return this.#send(method, params, timeoutMs, expectFinal);
  }

  #send(method, params, timeoutMs, expectFinal = false) {
    const id = String(++this.lastId);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.pending.delete(id);
        reject(new GatewayError({ code: "TIMEOUT", message: `${method}: no response within ${timeoutMs} ms`, retryable: true }));
      }, timeoutMs);
      this.pending.set(id, { resolve, reject, timer, expectFinal });
      this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  #open() {
    clearTimeout(this.retryTimer);
    this.retryTimer = null;
    this.lastSeq = null;
    this.connectError = null;
    this.tickMs = TICK_MS;
    this.onState({ name: "connecting" });
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => this.#handleClose(code);
    // Give up on a server that accepts the connection but sends nothing.
    this.handshakeTimer = setTimeout(() => this.#abandon("no hello"), HANDSHAKE_MS);
  }

  #receive(frame) {
    this.lastFrameAt = Date.now();
    if (frame.type === "res") return this.#handleResponse(frame);
    if (frame.type !== "event") return;
    if (frame.event === "connect.challenge") return void this.#sendConnect();
    if (typeof frame.seq === "number") {
      const hasGap = this.lastSeq !== null && frame.seq > this.lastSeq + 1;
      this.lastSeq = frame.seq;
      if (hasGap) this.onGap();
    }
    this.onEvent(frame.event, frame.payload ?? {});
  }

  #handleResponse({ id, ok, payload, error }) {
    const request = this.pending.get(id);
    if (!request) return; // the request timed out, or this is a second response without expectFinal
    if (request.expectFinal && ok && payload?.status === "accepted") return;
    this.pending.delete(id);
    clearTimeout(request.timer);
    if (ok) request.resolve(payload ?? {});
    else request.reject(new GatewayError(error ?? { code: "UNAVAILABLE", message: "no error details" }));
  }

  async #sendConnect() {
    const { client, caps, scopes, token } = this;
    const params = { minProtocol: PROTOCOL, maxProtocol: PROTOCOL, client, role: "operator", caps, scopes };
    if (token) params.auth = { token };
    const locale = globalThis.document?.documentElement.lang || navigator.language;
    try {
      const hello = await this.#send("connect", { ...params, locale, userAgent: navigator.userAgent }, HANDSHAKE_MS);
      clearTimeout(this.handshakeTimer);
      this.attempts = 0;
      this.ready = true;
      this.tickMs = hello.policy?.tickIntervalMs ?? TICK_MS;
      this.#watchForSilence();
      this.onState({ name: "ready", hello });
    } catch (error) {
      this.connectError = error; // the server closes the connection next; the error says whether to retry
    }
  }

  /** Compares times instead of restarting a timer per tick, so that the first check after a laptop wakes up detects the silence. */
  #watchForSilence() {
    clearInterval(this.silenceTimer);
    this.silenceTimer = setInterval(() => {
      if (Date.now() - this.lastFrameAt > 2 * this.tickMs) this.#abandon("tick timeout");
    }, Math.min(this.tickMs / 2, 5_000));
  }

  /** Drop a dead connection: its close event may take minutes. */
  #abandon(reason) {
    this.#dropSocket(CLOSE.stalled, reason);
    this.#handleClose(CLOSE.stalled);
  }

  #dropSocket(code, reason) {
    clearTimeout(this.handshakeTimer);
    clearInterval(this.silenceTimer);
    this.ready = false;
    if (!this.socket) return;
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close(code, reason);
    this.socket = null;
  }

  #rejectPending() {
    for (const { reject, timer } of this.pending.values()) {
      clearTimeout(timer);
      reject(createDisconnectedError());
    }
    this.pending.clear();
  }

  #handleClose(code) {
    clearTimeout(this.handshakeTimer);
    clearInterval(this.silenceTimer);
    const connectError = this.connectError;
    this.ready = false;
    this.socket = null;
    this.#rejectPending();
    if (code === CLOSE.protocol) return this.onState({ name: "outdated" });
    // A policy close without an error means that the client was too slow or is signed out; reconnecting shows which.
    if (code === CLOSE.policy && connectError && !connectError.retryable) return this.onState(getRejectedState(connectError));
    const delay = Math.max(retryDelay(this.attempts++), connectError?.retryAfterMs ?? 0);
    this.retryTimer = setTimeout(() => this.#open(), delay);
    this.onState({ name: navigator.onLine === false ? "offline" : "waiting", until: Date.now() + delay });
  }
}

function getRejectedState({ message, details }) {
  return details?.code?.startsWith("AUTH_") ? { name: "signed-out" } : { name: "refused", why: message };
}

function createDisconnectedError() {
  return new GatewayError({ code: "DISCONNECTED", message: "not connected", retryable: true });
}
