/**
 * One's own conversations as the server lists them: page by page, the head again when something changed, one by one.
 *
 * It draws nothing. What somebody has just done is shown at once and kept over answers that are older than it (`expect`).
 */

const PAGE = 50;
const OVERLAP = 5; // rows asked for twice: others may have moved up, or gone, since the last page

export class SessionStore {
  /** @param {{gateway: object, archived?: boolean, onChange: Function}} options */
  constructor({ gateway, archived = false, onChange }) {
    Object.assign(this, { gateway, archived, onChange });
    this.rows = new Map(); // key → row; `rank` is its place in the head, `apart` says that it was looked up alone
    this.expected = new Map(); // key → the changes that the server has not answered yet
    this.loaded = false;
    this.complete = false;
    this.defaults = {};
    this.suspects = new Set(); // keys of which something was told
    this.refreshing = null;
    this.paging = null;
    this.again = false;
  }

  find(key) {
    return this.rows.get(key);
  }

  /** Pinned ones in the order of the server, then the last used first. */
  ordered() {
    return [...this.rows.values()].sort(
      (a, b) => Boolean(b.pinned) - Boolean(a.pinned) || (a.pinned ? a.rank - b.rank : (b.updatedAt ?? 0) - (a.updatedAt ?? 0)),
    );
  }

  /** Read the head again. A call while that is under way joins it, and it goes another round. */
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
      const changed = this.suspects;
      this.suspects = new Set();
      const { sessions, nextOffset, defaults } = await this.#ask({ limit: PAGE });
      this.defaults = defaults ?? {};
      this.#head(sessions, nextOffset == null);
      for (const key of changed) if (this.rows.has(key) && !sessions.some((row) => row.key === key)) await this.#lookUp(key);
      this.loaded = true;
      this.onChange();
    }
  }

  /** What would stand among the first, and does not, is gone. */
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

  /** The next page. */
  more() {
    if (this.complete || !this.loaded) return Promise.resolve();
    this.paging ??= this.#more().finally(() => {
      this.paging = null;
    });
    return this.paging;
  }

  async #more() {
    const listed = [...this.rows.values()].filter(({ apart }) => !apart).length;
    const { sessions, nextOffset } = await this.#ask({ limit: PAGE, offset: Math.max(0, listed - OVERLAP) });
    for (const row of sessions) this.put({ ...row, rank: this.find(row.key)?.rank ?? Number.MAX_SAFE_INTEGER });
    this.complete = nextOffset == null;
    this.onChange();
  }

  /** A conversation that may stand further down than what was loaded; undefined when there is none. */
  async lookUp(key) {
    await this.#lookUp(key);
    this.onChange();
    return this.find(key);
  }

  async #lookUp(key) {
    const { sessions } = await this.#ask({ limit: 20, search: key });
    const row = sessions.find((each) => each.key === key);
    const known = this.find(key);
    if (row) this.put({ ...row, rank: known?.rank ?? 0, apart: known ? known.apart : true });
    else if (!this.expected.has(key)) this.rows.delete(key);
  }

  #ask(wish) {
    return this.gateway.request("sessions.list", { ...wish, own: true, archived: this.archived, includeLastMessage: true });
  }

  put(row) {
    const { gone, ...expected } = Object.assign({}, ...(this.expected.get(row.key) ?? []));
    if (gone) this.rows.delete(row.key);
    else this.rows.set(row.key, { ...row, ...expected });
  }

  /** Something was told about a session: change what is known of it, and have the server say the rest. */
  told(key, changes = {}) {
    this.suspects.add(key);
    const row = this.find(key);
    if (row) this.put({ ...row, ...changes });
    this.onChange();
  }

  remove(key) {
    if (this.rows.delete(key)) this.onChange();
  }

  /** Show `changes` (or {gone: true}) while `asking` is under way; when it fails, what the server says instead. */
  async expect(key, changes, asking) {
    const before = this.find(key);
    this.expected.set(key, [...(this.expected.get(key) ?? []), changes]);
    this.put({ key, ...before });
    this.onChange();
    try {
      const answer = await asking;
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
