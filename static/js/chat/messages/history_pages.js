/**
 * The rest of a long conversation: older messages when one scrolls up to them, the surroundings of a message that is linked to,
 * and from there the newer ones. Live events wait while newer messages are missing; the last page brings them.
 */

import { PAGE } from "../../shared/feed.js";
import { reason } from "../../shared/texts.js";

const AHEAD = 1500; // pixels before the edge at which the next page is fetched

export class Pages {
  /** @param {{app, transcript, reading, log: Element, top: Element, bottom: Element}} parts */
  constructor({ app, transcript, reading, log, top, bottom }) {
    Object.assign(this, { app, transcript, reading, top, bottom, older: null, newer: null, asking: false, joining: false });
    this.watch = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) if (isIntersecting) this.#load(target === top ? "older" : "newer");
      },
      { root: log, rootMargin: `${AHEAD}px 0px` },
    );
    for (const edge of [top, bottom]) edge.querySelector("button").addEventListener("click", () => this.#load(edge === top ? "older" : "newer"));
  }

  /** Newer messages than those shown are stored, so live events cannot be added below them. */
  get behind() {
    return this.newer !== null;
  }

  begin({ nextCursor = null, newerCursor = null } = {}) {
    this.older = nextCursor;
    this.newer = newerCursor;
    this.#draw();
  }

  /** Whether this newest page goes on where what is shown ends. */
  joins({ messages, nextCursor }) {
    return this.joining && (!nextCursor || messages.some(({ messageId }) => messageId && this.transcript.find(messageId)));
  }

  /** Show the page around a message instead of the newest one. False when there is no such message. */
  async around(messageId) {
    const { sessionKey } = this.app.feed;
    const page = await this.#ask({ around: messageId }).catch((error) => {
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
    if (from === null || this.asking) return;
    this.asking = true;
    const { feed } = this.app;
    try {
      const page = await this.#ask(which === "older" ? { before: from } : { after: from });
      if (feed !== this.app.feed || from !== this[which]) return;
      if (which === "older") this.reading.keepPlace(() => this.transcript.prepend(page.messages));
      else this.transcript.add(page.messages);
      this[which] = (which === "older" ? page.nextCursor : page.newerCursor) ?? null;
      if (which === "newer" && !this.behind) await this.#join(feed);
    } catch (error) {
      if (error.code !== "DISCONNECTED") this.app.problem(reason(this.app.words, error));
    } finally {
      this.asking = false;
      this.#draw();
    }
  }

  /** All that is stored is shown: what happens now goes on below it again. */
  async #join(feed) {
    this.joining = true;
    try {
      await feed.reload();
    } finally {
      this.joining = false;
    }
  }

  #ask(wish) {
    return this.app.gateway.request("chat.history", { sessionKey: this.app.feed.sessionKey, limit: PAGE, html: true, notices: true, ...wish });
  }

  /** Observing again tells at once whether the edge is still near: a page may have been short. */
  #draw() {
    for (const [edge, from] of [[this.top, this.older], [this.bottom, this.newer]]) {
      edge.hidden = from === null;
      this.watch.unobserve(edge);
      if (from !== null) this.watch.observe(edge);
    }
  }
}
