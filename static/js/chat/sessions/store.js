/**
 * The sessions the server lists for the user: pages, a refreshable first page, and single lookups.
 *
 * Draws nothing. Local changes apply immediately and are not overwritten by older responses (`expect`).
 */

const PAGE = 50;
const OVERLAP = 5; // rows requested twice: others may have moved or disappeared since the last page

export class SessionStore {
  /** @param {{gateway: object, archived?: boolean, onChange: Function}} options */
  constructor({ gateway, archived = false, onChange }) {
    Object.assign(this, { gateway, archived, onChange });
    this.rows = new Map(); // key → row; `rank` is its position on the first page, `isLookedUp` marks rows loaded by a lookup
    this.expected = new Map(); // key → changes the server has not confirmed yet
    this.loaded = false;
    this.complete = false;
    this.defaults = {};
    this.changedKeys = new Set(); // keys with pending events
    this.refreshing = null;
    this.paging = null;
    this.again = false;
  }

  find(key) {
    return this.rows.get(key);
  }

  /** Pinned ones in server order, then by last use. */
  ordered() {
    return [...this.rows.values()].sort(
      (a, b) => Boolean(b.pinned) - Boolean(a.pinned) || (a.pinned ? a.rank - b.rank : (b.updatedAt ?? 0) - (a.updatedAt ?? 0)),
    );
  }

  /** Reload the first page. A call during a reload joins it and triggers another round. */
  refresh() {
    this.again = true;
    this.refreshing ??= this.#refresh().finally(() => {
      this.refreshing = null;
    });
    return this.refreshing;
  }

  async #refresh() {
    while (this.again && this.gateway.ready) {
      this.again = false;
      const changed = this.changedKeys;
      this.changedKeys = new Set();
      const { sessions, nextOffset, defaults } = await this.#list({ limit: PAGE });
      this.defaults = defaults ?? {};
      this.#head(sessions, nextOffset == null);
      for (const key of changed) if (this.rows.has(key) && !sessions.some((row) => row.key === key)) await this.#lookUp(key);
      this.loaded = true;
      this.onChange();
    }
  }

  /** Replace the first page. Rows that would belong to it but are missing were deleted. */
  #head(sessions, whole) {
    const here = new Set(sessions.map(({ key }) => key));
    const last = sessions.at(-1);
    for (const row of this.rows.values()) {
      if (here.has(row.key) || this.expected.has(row.key)) continue;
      if (whole || (last && !last.pinned && (row.pinned || row.updatedAt > last.updatedAt))) this.rows.delete(row.key);
    }
    sessions.forEach((row, rank) => this.put({ ...row, rank }));
    if (whole || !this.loaded) this.complete = whole;
  }

  /** Load the next page. */
  more() {
    if (this.complete || !this.loaded) return Promise.resolve();
    this.paging ??= this.#more().finally(() => {
      this.paging = null;
    });
    return this.paging;
  }

  async #more() {
    const listed = [...this.rows.values()].filter(({ isLookedUp }) => !isLookedUp).length;
    const { sessions, nextOffset } = await this.#list({ limit: PAGE, offset: Math.max(0, listed - OVERLAP) });
    for (const row of sessions) this.put({ ...row, rank: this.find(row.key)?.rank ?? Number.MAX_SAFE_INTEGER });
    this.complete = nextOffset == null;
    this.onChange();
  }

  /** Load a session that may be beyond the loaded pages; undefined if there is none. */
  async lookUp(key) {
    await this.#lookUp(key);
    this.onChange();
    return this.find(key);
  }

  async #lookUp(key) {
    const { sessions } = await this.#list({ limit: 20, search: key });
    const row = sessions.find((each) => each.key === key);
    const known = this.find(key);
    if (row) this.put({ ...row, rank: known?.rank ?? 0, isLookedUp: known ? known.isLookedUp : true });
    else if (!this.expected.has(key)) this.rows.delete(key);
  }

  #list(params) {
    return this.gateway.request("sessions.list", { ...params, own: true, archived: this.archived, includeLastMessage: true });
  }

  put(row) {
    const { gone, ...expected } = Object.assign({}, ...(this.expected.get(row.key) ?? []));
    if (gone) this.rows.delete(row.key);
    else this.rows.set(row.key, { ...row, ...expected });
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
  async expect(key, changes, request) {
    const before = this.find(key);
    this.expected.set(key, [...(this.expected.get(key) ?? []), changes]);
    this.put({ key, ...before });
    this.onChange();
    try {
      const answer = await request;
      this.#settle(key, changes);
      return answer;
    } catch (error) {
      this.#settle(key, changes);
      if (before) this.put(before);
      else this.rows.delete(key);
      this.onChange();
      throw error;
    }
  }

  #settle(key, changes) {
    const left = this.expected.get(key).filter((each) => each !== changes);
    if (left.length) this.expected.set(key, left);
    else this.expected.delete(key);
  }
}
