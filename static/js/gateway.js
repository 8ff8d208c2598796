/**
 * The browser's end of the gateway protocol: one WebSocket that comes back by itself.
 *
 * It matches answers to requests, notices silence and lost frames, and says which state it is in. It knows nothing of
 * sessions (feed.js) or of pages (chat.js). The server is always the one the page came from.
 */

const PROTOCOL = 4;
const REQUEST_MS = 30_000;
const HANDSHAKE_MS = 15_000;
const FIRST_RETRY_MS = 250; // a restarted server is often back at once
const LONGEST_RETRY_MS = 15_000;
const TICK_MS = 30_000; // until hello-ok says otherwise

/** Close codes of the server that trying again cannot mend. */
const CLOSE = { protocol: 1002, policy: 1008, stalled: 4000 };

/** An answer that says no, or no answer at all: `code` is the server's, or DISCONNECTED or TIMEOUT. */
export class GatewayError extends Error {
  constructor({ code, message, details = null, retryable = false, retryAfterMs = null }) {
    super(message);
    Object.assign(this, { code, details, retryable, retryAfterMs });
  }
}

/** How long to wait before the nth try: 250 ms, then doubling to 15 s, half of it random so that clients spread out. */
export function retryDelay(tries, random = Math.random()) {
  if (tries === 0) return FIRST_RETRY_MS;
  return Math.min(FIRST_RETRY_MS * 2 ** (tries + 1), LONGEST_RETRY_MS) * (0.5 + random / 2);
}

/** Random letters for keys. `crypto.randomUUID` exists on secure origins only, this on all. */
export function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Gateway {
  /**
   * @param {{url: string, client: object, caps?: string[], scopes?: string[], onState: Function, onEvent: Function, onGap: Function}} options
   * onState({name, …}): connecting | ready {hello} | waiting {until} | offline {until} | signed-out | refused {why} | outdated
   * onEvent(name, payload), onGap(): an event of this connection was lost, so catch up.
   */
  constructor({ url, client, caps = [], scopes = [], onState, onEvent, onGap }) {
    Object.assign(this, { url, client, caps, scopes, onState, onEvent, onGap });
    this.socket = null;
    this.ready = false;
    this.pending = new Map();
    this.lastId = 0;
    this.tries = 0;
    this.retryTimer = null;
    this.deadline = null;
    this.watch = null;
    globalThis.addEventListener?.("online", () => this.retry());
  }

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

  /** Ask and get the answer's payload. Rejects with a GatewayError, also when the connection ends first. */
  request(method, params = {}, { timeoutMs = REQUEST_MS } = {}) {
    if (!this.ready) return Promise.reject(disconnected());
    return this.#ask(method, params, timeoutMs);
  }

  #ask(method, params, timeoutMs) {
    const id = String(++this.lastId);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.pending.delete(id);
        reject(new GatewayError({ code: "TIMEOUT", message: `${method}: no answer in ${timeoutMs} ms`, retryable: true }));
      }, timeoutMs);
      this.pending.set(id, { resolve, reject, timer });
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
    if (!asked) return; // it came after its time-out
    this.pending.delete(id);
    clearTimeout(asked.timer);
    if (ok) asked.resolve(payload ?? {});
    else asked.reject(new GatewayError(error ?? { code: "UNAVAILABLE", message: "no reason given" }));
  }

  async #hello() {
    const params = { minProtocol: PROTOCOL, maxProtocol: PROTOCOL, client: this.client, role: "operator", caps: this.caps, scopes: this.scopes };
    try {
      const hello = await this.#ask("connect", { ...params, locale: document.documentElement.lang || navigator.language, userAgent: navigator.userAgent }, HANDSHAKE_MS);
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
    const socket = this.socket;
    socket.onmessage = socket.onclose = null;
    socket.close(CLOSE.stalled, reason);
    this.#lost(CLOSE.stalled);
  }

  #lost(code) {
    clearTimeout(this.deadline);
    clearInterval(this.watch);
    const refusal = this.refusal;
    this.ready = false;
    this.socket = null;
    for (const { reject, timer } of this.pending.values()) {
      clearTimeout(timer);
      reject(disconnected());
    }
    this.pending.clear();
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
