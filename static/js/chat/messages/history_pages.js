/**
 * Loads the rest of a long session: older messages on scrolling up, the messages around a linked one, and newer ones from there.
 * While newer messages are missing, live events are not shown; they come with the last page.
 */

import { PAGE_SIZE } from "../../shared/feed.js";
import { describeError } from "../../shared/texts.js";

const PREFETCH_PIXELS = 1500; // distance from the edge at which the next page is loaded

export class HistoryPages {
  /** @param {{app, transcript, scroll, log: Element, top: Element, bottom: Element}} parts */
  constructor({ app, transcript, scroll, log, top, bottom }) {
    Object.assign(this, { app, transcript, scroll, top, bottom, older: null, newer: null, loading: false, joining: false });
    this.watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) this.#load(target === top ? "older" : "newer");
      },
      { root: log, rootMargin: `${PREFETCH_PIXELS}px 0px` },
    );
    for (const edge of [top, bottom]) edge.querySelector("button").addEventListener("click", () => this.#load(edge === top ? "older" : "newer"));
  }

  /** Newer messages than those shown are stored, so live events cannot be appended. */
  get behind() {
    return this.newer !== null;
  }

  begin({ nextCursor = null, newerCursor = null } = {}) {
    this.older = nextCursor;
    this.newer = newerCursor;
    this.#draw();
  }

  /** Whether this newest page continues the messages shown. */
  joins({ messages, nextCursor }) {
    return this.joining && (!nextCursor || messages.some(({ messageId }) => messageId && this.transcript.find(messageId)));
  }

  /** Show the page around a message instead of the newest one. False if there is no such message. */
  async around(messageId) {
    const { sessionKey } = this.app.feed;
    const page = await this.#request({ around: messageId }).catch((error) => {
      if (error.code === "NOT_FOUND") return { messages: [] };
      throw error;
    });
    if (sessionKey !== this.app.feed.sessionKey || !page.messages.some((message) => message.messageId === messageId)) return false;
    this.transcript.clear();
    this.transcript.add(page.messages);
    this.begin(page);
    return true;
  }

  async #load(which) {
    const from = this[which];
    if (from === null || this.loading) return;
    this.loading = true;
    const { feed } = this.app;
    try {
      const page = await this.#request(which === "older" ? { before: from } : { after: from });
      if (feed !== this.app.feed || from !== this[which]) return;
      if (which === "older") this.scroll.preservePosition(() => this.transcript.prepend(page.messages));
      else this.transcript.add(page.messages);
      this[which] = (which === "older" ? page.nextCursor : page.newerCursor) ?? null;
      if (which === "newer" && !this.behind) await this.#join(feed);
    } catch (error) {
      if (error.code !== "DISCONNECTED") this.app.showProblem(describeError(error, this.app.texts));
    } finally {
      this.loading = false;
      this.#draw();
    }
  }

  /** Everything stored is shown: follow live events again. */
  async #join(feed) {
    this.joining = true;
    try {
      await feed.reload();
    } finally {
      this.joining = false;
    }
  }

  #request(position) {
    return this.app.gateway.request("chat.history", { sessionKey: this.app.feed.sessionKey, limit: PAGE_SIZE, html: true, notices: true, ...position });
  }

  /** Observing again reports whether the edge is still near, since a page may be short. */
  #draw() {
    for (const [edge, from] of [[this.top, this.older], [this.bottom, this.newer]]) {
      edge.hidden = from === null;
      this.watch.unobserve(edge);
      if (from !== null) this.watch.observe(edge);
    }
  }
}
