/**
 * Loads the rest of a long session: older messages on scrolling up, the messages around a linked one, and newer ones from there.
 * While newer messages are missing, live events are not shown; the last page contains their messages.
 */

import { PAGE_SIZE } from "../../shared/feed.js";
import { describeError } from "../../shared/texts.js";

const PREFETCH_PIXELS = 1500; // distance from the edge at which the next page is loaded

export class HistoryPages {
  /** @param {{app, transcript, scroll, log: Element, top: Element, bottom: Element}} parts */
  constructor({ app, transcript, scroll, log, top, bottom }) {
    Object.assign(this, { app, transcript, scroll, top, bottom, older: null, newer: null, loading: false, isJoining: false });
    this.edgeObserver = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) this.#load(target === top ? "older" : "newer");
      },
      { root: log, rootMargin: `${PREFETCH_PIXELS}px 0px` },
    );
    for (const edge of [top, bottom]) {
      edge.querySelector("button").addEventListener("click", () => this.#load(edge === top ? "older" : "newer"));
    }
  }

  /** Whether newer messages are stored but not loaded. If so, live events can't be appended. */
  get hasNewer() {
    return this.newer !== null;
  }

  reset({ nextCursor = null, newerCursor = null } = {}) {
    this.older = nextCursor;
    this.newer = newerCursor;
    this.#render();
  }

  /** Whether this page, the newest one, continues the displayed messages. */
  continues({ messages, nextCursor }) {
    return this.isJoining && (!nextCursor || messages.some(({ messageId }) => messageId && this.transcript.find(messageId)));
  }

  /** Show the page around a message instead of the newest one. Returns false if there is no such message. */
  async loadAround(messageId) {
    const { sessionKey } = this.app.feed;
    const page = await this.#request({ around: messageId }).catch((error) => {
      if (error.code === "NOT_FOUND") return { messages: [] };
      throw error;
    });
    if (sessionKey !== this.app.feed.sessionKey || !page.messages.some((message) => message.messageId === messageId)) return false;
    this.transcript.clear();
    this.transcript.add(page.messages);
    this.reset(page);
    return true;
  }

  async #load(direction) {
    const cursor = this[direction];
    if (cursor === null || this.loading) return;
    this.loading = true;
    const { feed } = this.app;
    try {
      const page = await this.#request(direction === "older" ? { before: cursor } : { after: cursor });
      if (feed !== this.app.feed || cursor !== this[direction]) return;
      if (direction === "older") this.scroll.preservePosition(() => this.transcript.prepend(page.messages));
      else this.transcript.add(page.messages);
      this[direction] = (direction === "older" ? page.nextCursor : page.newerCursor) ?? null;
      if (direction === "newer" && !this.hasNewer) await this.#join(feed);
    } catch (error) {
      if (error.code !== "DISCONNECTED") this.app.showProblem(describeError(error, this.app.texts));
    } finally {
      this.loading = false;
      this.#render();
    }
  }

  /** All stored messages are loaded: follow live events again. */
  async #join(feed) {
    this.isJoining = true;
    try {
      await feed.reload();
    } finally {
      this.isJoining = false;
    }
  }

  #request(position) {
    return this.app.gateway.request("chat.history", {
      sessionKey: this.app.feed.sessionKey,
      limit: PAGE_SIZE,
      html: true,
      notices: true,
      ...position,
    });
  }

  /** Observing again reports whether the edge is still near, since a page may be short. */
  #render() {
    for (const [edge, cursor] of [[this.top, this.older], [this.bottom, this.newer]]) {
      edge.hidden = cursor === null;
      this.edgeObserver.unobserve(edge);
      if (cursor !== null) this.edgeObserver.observe(edge);
    }
  }
}
