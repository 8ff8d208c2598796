/** The list of conversations at the left: asked for when something changed, newest first, the shown one marked. */

export class SessionList {
  /** onTitle(text) is told the title of the session that is shown. */
  constructor({ gateway, words, mainKey, root, onTitle }) {
    Object.assign(this, { gateway, words, mainKey, root, onTitle });
    this.rows = [];
    this.shown = null;
    this.asking = false;
    this.changed = false;
  }

  /** Ask again. At most one question is under way; what changes meanwhile is asked for after it. */
  async refresh() {
    this.changed = true;
    if (this.asking) return;
    this.asking = true;
    while (this.changed && this.gateway.ready) {
      this.changed = false;
      try {
        const wish = { limit: 100, includeDerivedTitles: true, includeLastMessage: true };
        this.rows = (await this.gateway.request("sessions.list", wish)).sessions;
        this.#draw();
      } catch {
        break; // the next change, or the next connection, asks again
      }
    }
    this.asking = false;
  }

  show(sessionKey) {
    this.shown = sessionKey;
    this.#draw();
  }

  /** A conversation nobody has written in yet is on no server, so it is put first. */
  #draw() {
    const rows = this.rows.some(({ key }) => key === this.shown) ? this.rows : [{ key: this.shown }, ...this.rows];
    this.root.replaceChildren(...rows.map((row) => this.#item(row)));
    this.onTitle(this.#title(rows.find(({ key }) => key === this.shown)));
  }

  #item(row) {
    const item = document.getElementById("session-row").content.firstElementChild.cloneNode(true);
    const link = item.querySelector("a");
    link.href = `#${encodeURIComponent(row.key)}`;
    if (row.key === this.shown) link.setAttribute("aria-current", "page");
    item.querySelector(".name").textContent = this.#title(row);
    item.querySelector(".preview").textContent = row.lastMessagePreview ?? "";
    return item;
  }

  #title(row) {
    return row.displayName || row.derivedTitle || (row.key === this.mainKey ? this.words.main : this.words.unnamed);
  }
}
