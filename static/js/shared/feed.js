/**
 * Follows one session: stored messages first, then every event after them, once and in order.
 *
 * Events carry the session's cursor, which has no gaps, and the seq of their run. After a disconnect the feed requests missed
 * events by cursor. If the server no longer has them, or has a different log after a restore, it reloads the stored messages.
 */

export const PAGE_SIZE = 100; // messages per page of history
const MAX_SYNC_ROUNDS = 5; // per call of sync(); the next event triggers more

export class SessionFeed {
  /** onHistory({messages, queued, activeRun}) replaces what is shown; onEvent(payload) adds to it. */
  constructor({ gateway, sessionKey, onHistory, onEvent }) {
    Object.assign(this, { gateway, sessionKey, onHistory, onEvent });
    this.sessionId = null; // ID of the session's current generation; null until the first message
    this.loaded = false;
    this.cursor = 0; // of the last event that was applied or is covered by the stored messages
    this.epoch = undefined; // of the event log the cursor belongs to
    this.runs = new Map(); // run id → last seq seen
    this.pendingEvents = []; // events that arrived while catching up
    this.syncing = null;
    this.syncAgain = false;
    this.closed = false;
  }

  /** Stop following the session. */
  close() {
    this.closed = true;
  }

  /** Load, or catch up after a disconnect. A call during a sync joins it and triggers another round. */
  sync() {
    this.syncAgain = true;
    this.syncing ??= this.#sync().finally(() => {
      this.syncing = null;
    });
    return this.syncing;
  }

  /** Reload the stored messages; the key may now belong to a different session. */
  reload() {
    this.loaded = false;
    this.sessionId = null;
    return this.sync();
  }

  /** Handle a live event. Returns a promise if it revealed a gap that is being filled. */
  take(payload) {
    if (this.closed || !this.#matchesSession(payload) || !(this.loaded || this.syncing)) return null;
    if (payload.change === "reset") return this.reload(); // a new generation: what is shown belongs to the previous one
    if (!this.syncing && payload.cursor <= this.cursor + 1) return this.#apply(payload);
    this.pendingEvents.push(payload);
    return this.syncing ? null : this.sync();
  }

  /** The ID guards against a session that was deleted and recreated under the same key. */
  #matchesSession({ sessionKey, sessionId, change }) {
    return sessionKey === this.sessionKey && (!this.sessionId || sessionId === this.sessionId || change === "reset");
  }

  async #sync() {
    for (let round = 0; this.syncAgain && !this.closed && round < MAX_SYNC_ROUNDS; round++) {
      this.syncAgain = false;
      if (!this.loaded || !(await this.#catchUp())) await this.#load();
      const pendingEvents = this.pendingEvents.sort((a, b) => a.cursor - b.cursor);
      this.pendingEvents = [];
      for (const payload of pendingEvents) {
        if (payload.cursor > this.cursor + 1) this.syncAgain = true;
        if (this.syncAgain) this.pendingEvents.push(payload);
        else this.#apply(payload);
      }
    }
  }

  async #load() {
    const history = await this.gateway.request("chat.history", {
      sessionKey: this.sessionKey,
      limit: PAGE_SIZE,
      html: true,
      notices: true,
    });
    if (this.closed) return;
    this.loaded = true;
    this.cursor = history.cursor;
    this.epoch = history.epoch;
    this.sessionId = history.sessionId;
    this.runs.clear();
    if (history.activeRun) this.runs.set(history.activeRun.runId, history.activeRun.seq);
    this.onHistory(history);
  }

  /** Request and apply the missed events. Returns false if the server no longer has them. */
  async #catchUp() {
    let hasMore = true;
    while (hasMore && this.loaded && !this.closed) {
      const position = { fromStateVersion: this.cursor, epoch: this.epoch };
      const page = await this.gateway.request("sessions.history", { sessionKey: this.sessionKey, ...position });
      if (page.resync_required) return false;
      for (const { payload } of page.events) if (!this.closed) this.#apply(payload);
      this.cursor = Math.max(this.cursor, page.cursor);
      hasMore = page.more;
    }
    return this.loaded;
  }

  /**
   * The stored answer may be newer than its cursor: deltas it already contains are skipped by the run's seq. All other events are
   * idempotent and applied again, so the end of a run is never missed.
   */
  #apply(payload) {
    if (payload.cursor <= this.cursor) return null;
    this.cursor = payload.cursor;
    this.sessionId ??= payload.sessionId;
    if (payload.runId) {
      const lastSeq = this.runs.get(payload.runId) ?? 0;
      if (payload.seq <= lastSeq && payload.data?.delta !== undefined) return null;
      this.runs.set(payload.runId, Math.max(lastSeq, payload.seq));
    }
    this.onEvent(payload);
    return null;
  }
}
