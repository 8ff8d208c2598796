/**
 * One session, followed: what is stored, then every event after it, each once and in order.
 *
 * Events carry the session's cursor and, when they belong to a run, the run's own seq. After a break the feed asks for
 * what it missed by cursor; when the server no longer has it, it starts over from the stored messages.
 */

export class SessionFeed {
  /** onHistory({messages, queued, active}) replaces what is shown; onEvent(payload) adds to it. */
  constructor({ gateway, sessionKey, onHistory, onEvent }) {
    Object.assign(this, { gateway, sessionKey, onHistory, onEvent });
    this.cursor = null;
    this.runs = new Map(); // run id → last seq seen
    this.early = []; // arrived while catching up
    this.syncing = null;
    this.closed = false;
  }

  /** Another session is shown from now on. */
  close() {
    this.closed = true;
  }

  /** Load, or catch up after a break. A second call while one is under way joins it. */
  sync() {
    this.syncing ??= this.#sync().finally(() => {
      this.syncing = null;
    });
    return this.syncing;
  }

  /** A live event of this session. Returns a promise when it revealed a hole, which is then being closed. */
  take(payload) {
    if (this.closed || (this.cursor === null && !this.syncing)) return null;
    if (this.syncing) {
      this.early.push(payload);
      return null;
    }
    if (payload.cursor > this.cursor + 1) {
      this.early.push(payload);
      return this.sync();
    }
    this.#apply(payload);
    return null;
  }

  async #sync() {
    if (this.cursor === null || !(await this.#catchUp())) await this.#load();
    const early = this.early.sort((a, b) => a.cursor - b.cursor);
    this.early = [];
    if (!this.closed) early.forEach((payload) => this.#apply(payload));
  }

  async #load() {
    const history = await this.gateway.request("chat.history", { sessionKey: this.sessionKey, limit: 200 });
    if (this.closed) return;
    this.cursor = history.cursor ?? 0;
    this.runs.clear();
    if (history.active) this.runs.set(history.active.runId, history.active.seq);
    this.onHistory(history);
  }

  /** False when the server cannot say what was missed. */
  async #catchUp() {
    let more = true;
    while (more && !this.closed) {
      let page;
      try {
        page = await this.gateway.request("sessions.history", { sessionKey: this.sessionKey, fromStateVersion: this.cursor });
      } catch (error) {
        if (error.details?.code === "RESYNC_REQUIRED" || error.code === "NOT_FOUND") return false;
        throw error;
      }
      if (page.resyncRequired) return false;
      for (const { payload } of page.events) if (!this.closed) this.#apply(payload);
      this.cursor = Math.max(this.cursor, page.cursor);
      more = page.hasMore;
    }
    return true;
  }

  #apply(payload) {
    if (payload.runId && payload.seq <= (this.runs.get(payload.runId) ?? 0)) return;
    if (!payload.runId && payload.cursor <= this.cursor) return;
    if (payload.runId) this.runs.set(payload.runId, payload.seq);
    this.cursor = Math.max(this.cursor, payload.cursor);
    this.onEvent(payload);
  }
}
