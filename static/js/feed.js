/**
 * One session, followed: what is stored, then every event after it, each once and in order.
 *
 * Events carry the session's cursor and, when they belong to a run, the run's own seq. After a break the feed asks for
 * what it missed by cursor; when the server no longer has it, it starts over from the stored messages.
 */

export class SessionFeed {
  /** onHistory({messages, queued, activeRun}) replaces what is shown; onEvent(payload) adds to it. */
  constructor({ gateway, sessionKey, onHistory, onEvent }) {
    Object.assign(this, { gateway, sessionKey, onHistory, onEvent });
    this.sessionId = null; // of the session's current generation; null until somebody has written in it
    this.cursor = null; // last event seen; null when the stored messages have to be read first
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

  /** A live event. Returns a promise when it revealed a hole, which is then being closed. */
  take(payload) {
    if (this.closed || !this.#isOurs(payload) || (this.cursor === null && !this.syncing)) return null;
    if (payload.change === "reset") this.cursor = null; // another generation: what was shown belongs to the last one
    if (this.syncing) {
      this.early.push(payload);
      return null;
    }
    if (this.cursor === null || payload.cursor > this.cursor + 1) {
      this.early.push(payload);
      return this.sync();
    }
    this.#apply(payload);
    return null;
  }

  /** Keys are unique among one's own sessions only; who may see others' too gets events under the same key. */
  #isOurs({ sessionKey, sessionId, change }) {
    return sessionKey === this.sessionKey && (!this.sessionId || sessionId === this.sessionId || change === "reset");
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
    this.cursor = history.cursor;
    this.sessionId = history.sessionId;
    this.runs.clear();
    if (history.activeRun) this.runs.set(history.activeRun.runId, history.activeRun.seq);
    this.onHistory(history);
  }

  /** False when the server cannot say what was missed. */
  async #catchUp() {
    let more = true;
    while (more && !this.closed) {
      const page = await this.gateway.request("sessions.history", { sessionKey: this.sessionKey, fromStateVersion: this.cursor });
      if (page.resync_required) return false;
      for (const { payload } of page.events) if (!this.closed) this.#apply(payload);
      this.cursor = Math.max(this.cursor, page.cursor);
      more = page.more;
    }
    return true;
  }

  #apply(payload) {
    if (payload.runId && payload.seq <= (this.runs.get(payload.runId) ?? 0)) return;
    if (!payload.runId && payload.cursor <= this.cursor) return;
    if (payload.runId) this.runs.set(payload.runId, payload.seq);
    this.sessionId ??= payload.sessionId;
    this.cursor = Math.max(this.cursor, payload.cursor);
    this.onEvent(payload);
  }
}
