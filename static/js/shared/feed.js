/**
 * One session, followed: what is stored, then every event after it, each once and in order.
 *
 * Events carry the session's cursor, which has no holes, and the seq of the run they belong to. After a break the feed asks
 * for what it missed by cursor; when the server no longer has it, or has another log since a restore, it starts over from the
 * stored messages.
 */

export const PAGE = 100; // messages of one page of history
const MOST_ROUNDS = 5; // of catching up in a row; what is then still missing comes with the next event

export class SessionFeed {
  /** onHistory({messages, queued, activeRun}) replaces what is shown; onEvent(payload) adds to it. */
  constructor({ gateway, sessionKey, onHistory, onEvent }) {
    Object.assign(this, { gateway, sessionKey, onHistory, onEvent });
    this.sessionId = null; // of the session's current generation; null until somebody has written in it
    this.loaded = false;
    this.cursor = 0; // of the last event seen, or covered by the stored messages
    this.epoch = undefined; // of the log it counts in
    this.runs = new Map(); // run id → last seq seen
    this.early = []; // arrived while catching up
    this.syncing = null;
    this.again = false;
    this.closed = false;
  }

  /** Another session is shown from now on. */
  close() {
    this.closed = true;
  }

  /** Load, or catch up after a break. A call while one is under way joins it, and it goes another round. */
  sync() {
    this.again = true;
    this.syncing ??= this.#sync().finally(() => {
      this.syncing = null;
    });
    return this.syncing;
  }

  /** Begin again from the stored messages; the session of this key may be another one now. */
  reload() {
    this.loaded = false;
    this.sessionId = null;
    return this.sync();
  }

  /** A live event. Returns a promise when it revealed a hole, which is then being closed. */
  take(payload) {
    if (this.closed || !this.#isOurs(payload) || !(this.loaded || this.syncing)) return null;
    if (payload.change === "reset") return this.reload(); // another generation: what is shown belongs to the last one
    if (!this.syncing && payload.cursor <= this.cursor + 1) return this.#apply(payload);
    this.early.push(payload);
    return this.syncing ? null : this.sync();
  }

  /** The id guards against a session that was deleted and made again under the same key. */
  #isOurs({ sessionKey, sessionId, change }) {
    return sessionKey === this.sessionKey && (!this.sessionId || sessionId === this.sessionId || change === "reset");
  }

  async #sync() {
    for (let round = 0; this.again && !this.closed && round < MOST_ROUNDS; round++) {
      this.again = false;
      if (!this.loaded || !(await this.#catchUp())) await this.#load();
      const early = this.early.sort((a, b) => a.cursor - b.cursor);
      this.early = [];
      for (const payload of early) {
        if (payload.cursor > this.cursor + 1) this.again = true;
        if (this.again) this.early.push(payload);
        else this.#apply(payload);
      }
    }
  }

  async #load() {
    const history = await this.gateway.request("chat.history", { sessionKey: this.sessionKey, limit: PAGE, html: true, notices: true });
    if (this.closed) return;
    this.loaded = true;
    this.cursor = history.cursor;
    this.epoch = history.epoch;
    this.sessionId = history.sessionId;
    this.runs.clear();
    if (history.activeRun) this.runs.set(history.activeRun.runId, history.activeRun.seq);
    this.onHistory(history);
  }

  /** False when the server cannot say what was missed. */
  async #catchUp() {
    let more = true;
    while (more && this.loaded && !this.closed) {
      const place = { fromStateVersion: this.cursor, epoch: this.epoch };
      const page = await this.gateway.request("sessions.history", { sessionKey: this.sessionKey, ...place });
      if (page.resync_required) return false;
      for (const { payload } of page.events) if (!this.closed) this.#apply(payload);
      this.cursor = Math.max(this.cursor, page.cursor);
      more = page.more;
    }
    return this.loaded;
  }

  /**
   * The stored answer may be newer than the cursor that came with it: pieces of text that it holds already are left out by the
   * run's own seq. Everything else says the same when it is told again, so it is, and the end of a run is never missed.
   */
  #apply(payload) {
    if (payload.cursor <= this.cursor) return null;
    this.cursor = payload.cursor;
    this.sessionId ??= payload.sessionId;
    if (payload.runId) {
      const last = this.runs.get(payload.runId) ?? 0;
      if (payload.seq <= last && payload.data?.delta !== undefined) return null;
      this.runs.set(payload.runId, Math.max(last, payload.seq));
    }
    this.onEvent(payload);
    return null;
  }
}
