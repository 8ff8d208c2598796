/**
 * The sessions the server lists for the user: loads pages, refreshes the first page and looks up single sessions.
 *
 * Renders nothing. Local changes apply immediately and are not overwritten by older responses (`applyOptimistically`).
 */

const PAGE_SIZE = 50;
const OVERLAP = 5; // rows requested again, because rows may have moved or disappeared since the last page

export class SessionStore {
  /** @param {{gateway: object, archived?: boolean, onChange: Function}} options */
  constructor({ gateway, archived = false, onChange }) {
    Object.assign(this, { gateway, archived, onChange });
    this.rows = new Map(); // key → row; `rank` is its position on the first page, `isLookedUp` marks rows loaded by a lookup
    this.optimisticChanges = new Map(); // key → changes the server has not confirmed yet
    this.loaded = false;
    this.complete = false;
    this.defaults = {};
    this.changedKeys = new Set(); // sessions changed by events since the last refresh
    this.refreshing = null;
    this.loadingMore = null;
    this.refreshAgain = false;
  }

  find(key) {
    return this.rows.get(key);
  }

  /** The rows in display order: pinned ones in server order, then the others by last use. */
  ordered() {
    return [...this.rows.values()].sort(
      (a, b) => Boolean(b.pinned) - Boolean(a.pinned) || (a.pinned ? a.rank - b.rank : (b.updatedAt ?? 0) - (a.updatedAt ?? 0)),
    );
  }

  /** Reload the first page. A call during a reload joins it and triggers another round. */
  refresh() {
    this.refreshAgain = true;
    this.refreshing ??= this.#refresh().finally(() => {
      this.refreshing = null;
    });
    return this.refreshing;
  }

  async #refresh() {
    while (this.refreshAgain && this.gateway.ready) {
      this.refreshAgain = false;
      const changedKeys = this.changedKeys;
      this.changedKeys = new Set();
      const { sessions, nextOffset, defaults } = await this.#list({ limit: PAGE_SIZE });
      this.defaults = defaults ?? {};
      this.#replaceFirstPage(sessions, nextOffset == null);
      for (const key of changedKeys) if (this.rows.has(key) && !sessions.some((row) => row.key === key)) await this.#lookUp(key);
      this.loaded = true;
      this.onChange();
    }
  }

  /** Replace the first page. Rows that would belong to it but are missing were deleted. */
  #replaceFirstPage(sessions, isWholeList) {
    const keys = new Set(sessions.map(({ key }) => key));
    const last = sessions.at(-1);
    for (const row of this.rows.values()) {
      if (keys.has(row.key) || this.optimisticChanges.has(row.key)) continue;
      if (isWholeList || (last && !last.pinned && (row.pinned || row.updatedAt > last.updatedAt))) this.rows.delete(row.key);
    }
    sessions.forEach((row, rank) => this.put({ ...row, rank }));
    if (isWholeList || !this.loaded) this.complete = isWholeList;
  }

  /** Load the next page. */
  loadMore() {
    if (this.complete || !this.loaded) return Promise.resolve();
    this.loadingMore ??= this.#loadMore().finally(() => {
      this.loadingMore = null;
    });
    return this.loadingMore;
  }

  async #loadMore() {
    const listedCount = [...this.rows.values()].filter(({ isLookedUp }) => !isLookedUp).length;
    const { sessions, nextOffset } = await this.#list({ limit: PAGE_SIZE, offset: Math.max(0, listedCount - OVERLAP) });
    for (const row of sessions) this.put({ ...row, rank: this.find(row.key)?.rank ?? Number.MAX_SAFE_INTEGER });
    this.complete = nextOffset == null;
    this.onChange();
  }

  /** Load a session that may be beyond the loaded pages. Returns undefined if it does not exist. */
  async lookUp(key) {
    await this.#lookUp(key);
    this.onChange();
    return this.find(key);
  }

  async #lookUp(key) {
    const { sessions } = await this.#list({ limit: 20, search: key });
    const row = sessions.find((candidate) => candidate.key === key);
    const existing = this.find(key);
    if (row) this.put({ ...row, rank: existing?.rank ?? 0, isLookedUp: existing ? existing.isLookedUp : true });
    else if (!this.optimisticChanges.has(key)) this.rows.delete(key);
  }

  #list(params) {
    return this.gateway.request("sessions.list", { ...params, own: true, archived: this.archived, includeLastMessage: true });
  }

  put(row) {
    const { gone, ...changes } = Object.assign({}, ...(this.optimisticChanges.get(row.key) ?? []));
    if (gone) this.rows.delete(row.key);
    else this.rows.set(row.key, { ...row, ...changes });
  }

  /** An event changed a session: apply the known changes and request the rest on the next refresh. */
  markChanged(key, changes = {}) {
    this.changedKeys.add(key);
    const row = this.find(key);
    if (row) this.put({ ...row, ...changes });
    this.onChange();
  }

  remove(key) {
    if (this.rows.delete(key)) this.onChange();
  }

  /** Show `changes` (or {gone: true}) while `request` is running; on failure, restore the row. */
  async applyOptimistically(key, changes, request) {
    const before = this.find(key);
    this.optimisticChanges.set(key, [...(this.optimisticChanges.get(key) ?? []), changes]);
    this.put({ key, ...before });
    this.onChange();
    try {
      const response = await request;
      this.#removeOptimisticChanges(key, changes);
      return response;
    } catch (error) {
      this.#removeOptimisticChanges(key, changes);
      if (before) this.put(before);
      else this.rows.delete(key);
      this.onChange();
      throw error;
    }
  }

  #removeOptimisticChanges(key, changes) {
    const remaining = this.optimisticChanges.get(key).filter((candidate) => candidate !== changes);
    if (remaining.length) this.optimisticChanges.set(key, remaining);
    else this.optimisticChanges.delete(key);
  }
}
