/**
 * The browser's end of the gateway protocol: one WebSocket that comes back by itself.
 *
 * It matches answers to requests, notices silence and lost frames, and says which state it is in. It knows nothing of
 * sessions (feed.js follows one) or of pages, and imports nothing, so that other pages can use it: docs/clients.md.
 *
 * @typedef {object} State
 * @property {"connecting" | "ready" | "waiting" | "offline" | "signed-out" | "refused" | "outdated" | "closed"} name
 *   signed-out, refused, outdated and closed are final: nothing more is tried.
 * @property {object} [hello] of ready: the server's hello-ok, with its methods, scopes and limits
 * @property {number} [until] of waiting and offline: when it is tried again, in ms since 1970
 * @property {string} [why] of refused: the server's words
 *
 * @typedef {object} Options
 * @property {string} url such as wss://claw.example.org/ws; the page's origin must be one that the server allows
 * @property {string} [token] a personal token; without one the browser's sign-in counts
 * @property {{id: string, version?: string, platform?: string, mode?: string, instanceId?: string}} [client] who it is
 * @property {string[]} [caps] such as tool-events, session-scoped-events
 * @property {string[]} [scopes] fewer rights than the account has; none: all of them
 * @property {(state: State) => void} [onState]
 * @property {(name: string, payload: object) => void} [onEvent] every event, in order
 * @property {() => void} [onGap] events of this connection were lost, so catch up (feed.js does)
 */

const PROTOCOL = 4;
const REQUEST_MS = 30_000;
const HANDSHAKE_MS = 15_000;
const FIRST_RETRY_MS = 250; // a restarted server is often back at once
const LONGEST_RETRY_MS = 15_000;
const TICK_MS = 30_000; // until hello-ok says otherwise

/** Close codes: ours, and those of the server that trying again cannot mend. */
const CLOSE = { normal: 1000, protocol: 1002, policy: 1008, stalled: 4000 };
const SOMEBODY = { id: "browser", version: "1", platform: "web", mode: "ui" };
const ignore = () => {};

/** An answer that says no, or no answer at all: `code` is the server's, or DISCONNECTED or TIMEOUT. */
export class GatewayError extends Error {
  constructor({ code, message, details = null, retryable = false, retryAfterMs = null }) {
    super(message);
    Object.assign(this, { code, details, retryable, retryAfterMs });
  }
}

/** How long to wait before the nth try: up to 250 ms, 1 s, then doubling to 15 s, half of it random so that clients spread out. */
export function retryDelay(tries, random = Math.random()) {
  const longest = tries === 0 ? FIRST_RETRY_MS : FIRST_RETRY_MS * 2 ** (tries + 1);
  return Math.min(longest, LONGEST_RETRY_MS) * (0.5 + random / 2);
}

/** Random letters for keys. `crypto.randomUUID` exists on secure origins only, this on all. */
export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Gateway {
  /** @param {Options} options */
  constructor({ url, token = "", client = SOMEBODY, caps = [], scopes = [], onState = ignore, onEvent = ignore, onGap = ignore }) {
    Object.assign(this, { url, token, client, caps, scopes, onState, onEvent, onGap });
    this.socket = null;
    this.ready = false;
    this.pending = new Map();
    this.lastId = 0;
    this.tries = 0;
    this.retryTimer = null;
    this.deadline = null;
    this.watch = null;
    this.online = () => this.retry();
    globalThis.addEventListener?.("online", this.online);
  }

  /** Connect, and stay connected. */
  start() {
    this.#open();
  }

  /** Do not wait for the time of the next try. */
  retry() {
    if (this.retryTimer) this.#open();
  }

  /** Connect anew, because hello-ok would say something else by now. */
  renew() {
    if (this.ready) this.#giveUp("renew");
  }

  /** Leave for good. What is still unanswered is rejected. */
  close() {
    globalThis.removeEventListener?.("online", this.online);
    this.#forget(CLOSE.normal, "");
    clearTimeout(this.retryTimer);
    this.retryTimer = null;
    this.#rejectPending();
    this.onState({ name: "closed" });
  }

  /**
   * Ask and get the answer's payload. Rejects with a GatewayError, also when the connection ends first: nothing is sent twice.
   * Methods that change something take an idempotencyKey, with which asking again is safe.
   * `agent` answers twice, with `accepted` and when its run has ended: `expectFinal` waits for the second, within `timeoutMs`.
   *
   * @param {string} method @param {object} [params]
   * @param {{timeoutMs?: number, expectFinal?: boolean}} [options] @returns {Promise<object>}
   */
  request(method, params = {}, { timeoutMs = REQUEST_MS, expectFinal = false } = {}) {
    if (!this.ready) return Promise.reject(disconnected());
    return this.#ask(method, params, timeoutMs, expectFinal);
  }

  #ask(method, params, timeoutMs, expectFinal = false) {
    const id = String(++this.lastId);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.pending.delete(id);
        reject(new GatewayError({ code: "TIMEOUT", message: `${method}: no answer in ${timeoutMs} ms`, retryable: true }));
      }, timeoutMs);
      this.pending.set(id, { resolve, reject, timer, expectFinal });
      this.socket.send(JSON.stringify({ type: "req", id, method, params }));
    });
  }

  #open() {
    clearTimeout(this.retryTimer);
    this.retryTimer = null;
    this.lastSeq = null;
    this.refusal = null;
    this.tickMs = TICK_MS;
    this.onState({ name: "connecting" });
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onmessage = ({ data }) => this.#receive(JSON.parse(data));
    socket.onclose = ({ code }) => this.#lost(code);
    // A server that accepts and then says nothing is as good as none.
    this.deadline = setTimeout(() => this.#giveUp("no hello"), HANDSHAKE_MS);
  }

  #receive(frame) {
    this.heardAt = Date.now();
    if (frame.type === "res") return this.#answered(frame);
    if (frame.type !== "event") return;
    if (frame.event === "connect.challenge") return void this.#hello();
    if (typeof frame.seq === "number") {
      const gap = this.lastSeq !== null && frame.seq > this.lastSeq + 1;
      this.lastSeq = frame.seq;
      if (gap) this.onGap();
    }
    this.onEvent(frame.event, frame.payload ?? {});
  }

  #answered({ id, ok, payload, error }) {
    const asked = this.pending.get(id);
    if (!asked) return; // it came after its time-out, or is the second one of two that nobody waits for
    if (asked.expectFinal && ok && payload?.status === "accepted") return;
    this.pending.delete(id);
    clearTimeout(asked.timer);
    if (ok) asked.resolve(payload ?? {});
    else asked.reject(new GatewayError(error ?? { code: "UNAVAILABLE", message: "no reason given" }));
  }

  async #hello() {
    const { client, caps, scopes, token } = this;
    const params = { minProtocol: PROTOCOL, maxProtocol: PROTOCOL, client, role: "operator", caps, scopes };
    if (token) params.auth = { token };
    const locale = globalThis.document?.documentElement.lang || navigator.language;
    try {
      const hello = await this.#ask("connect", { ...params, locale, userAgent: navigator.userAgent }, HANDSHAKE_MS);
      clearTimeout(this.deadline);
      this.tries = 0;
      this.ready = true;
      this.tickMs = hello.policy?.tickIntervalMs ?? TICK_MS;
      this.#watchForSilence();
      this.onState({ name: "ready", hello });
    } catch (error) {
      this.refusal = error; // the server closes now, and the refusal says whether to try again
    }
  }

  /** The clock, not a timer per tick: after a laptop has slept the first check notices. */
  #watchForSilence() {
    clearInterval(this.watch);
    this.watch = setInterval(() => {
      if (Date.now() - this.heardAt > 2 * this.tickMs) this.#giveUp("tick timeout");
    }, Math.min(this.tickMs / 2, 5_000));
  }

  /** Leave a connection that is dead but open: its own close event may take minutes. */
  #giveUp(reason) {
    this.#forget(CLOSE.stalled, reason);
    this.#lost(CLOSE.stalled);
  }

  #forget(code, reason) {
    clearTimeout(this.deadline);
    clearInterval(this.watch);
    this.ready = false;
    if (!this.socket) return;
    this.socket.onmessage = this.socket.onclose = null;
    this.socket.close(code, reason);
    this.socket = null;
  }

  #rejectPending() {
    for (const { reject, timer } of this.pending.values()) {
      clearTimeout(timer);
      reject(disconnected());
    }
    this.pending.clear();
  }

  #lost(code) {
    clearTimeout(this.deadline);
    clearInterval(this.watch);
    const refusal = this.refusal;
    this.ready = false;
    this.socket = null;
    this.#rejectPending();
    if (code === CLOSE.protocol) return this.onState({ name: "outdated" });
    // Closed for policy without a refusal means too slow, or signed out since: connecting again tells which.
    if (code === CLOSE.policy && refusal && !refusal.retryable) return this.onState(refusedState(refusal));
    const delay = Math.max(retryDelay(this.tries++), refusal?.retryAfterMs ?? 0);
    this.retryTimer = setTimeout(() => this.#open(), delay);
    this.onState({ name: navigator.onLine === false ? "offline" : "waiting", until: Date.now() + delay });
  }
}

function refusedState({ message, details }) {
  return details?.code?.startsWith("AUTH_") ? { name: "signed-out" } : { name: "refused", why: message };
}

function disconnected() {
  return new GatewayError({ code: "DISCONNECTED", message: "not connected", retryable: true });
}
