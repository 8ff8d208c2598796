/**
 * Where somebody reads: along with the answer, or further up while it grows below.
 *
 * Who reads along stays at the end; nobody else is moved. Sizes are observed after the browser has laid out, never asked for
 * in between, so following costs no layout of its own.
 */

import { fill } from "../../shared/texts.js";

const NEAR = 48; // pixels from the end that count as there

export class Reading {
  /** @param {{log: Element, content: Element, end: Element, button: Element, words: object}} parts */
  constructor({ log, content, end, button, words }) {
    Object.assign(this, { log, button, words });
    this.following = true;
    this.atEnd = true;
    this.unread = 0;
    const sizes = new ResizeObserver(() => this.following && this.toEnd());
    sizes.observe(log);
    sizes.observe(content);
    new IntersectionObserver(([entry]) => this.#seen(entry.isIntersecting), { root: log, rootMargin: `0px 0px ${NEAR}px 0px` }).observe(end);
    log.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && this.#leave(), { passive: true });
    log.addEventListener("touchmove", () => this.#leave(), { passive: true });
    log.addEventListener("keydown", ({ key }) => ["ArrowUp", "PageUp", "Home"].includes(key) && this.#leave());
    log.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  /** Go to the end and stay there. */
  toEnd() {
    this.following = true;
    this.log.scrollTop = this.log.scrollHeight;
    this.#told(0);
  }

  /** Somebody goes to a place of their own. */
  stay() {
    this.#leave();
  }

  /** There is a new message. */
  news() {
    if (!this.following) this.#told(this.unread + 1);
  }

  /** Put something before what is read, and keep what is read where it is. */
  keepPlace(change) {
    const { log } = this;
    const below = log.scrollHeight - log.scrollTop;
    log.style.overflowAnchor = "none"; // the browser would move it a second time
    change();
    log.scrollTop = log.scrollHeight - below;
    requestAnimationFrame(() => log.style.removeProperty("overflow-anchor"));
  }

  #leave() {
    // A conversation that fits has no other place to be at.
    if (this.log.scrollHeight > this.log.clientHeight) this.following = false;
    this.#draw();
  }

  #scrolled() {
    if (this.following) return;
    const { scrollHeight, scrollTop, clientHeight } = this.log;
    if (scrollHeight - scrollTop - clientHeight > 4) return;
    this.following = true;
    this.#told(0);
  }

  #seen(atEnd) {
    this.atEnd = atEnd;
    if (!atEnd) this.following = false;
    this.#draw();
  }

  #told(unread) {
    this.unread = unread;
    this.#draw();
  }

  #draw() {
    const { button, words, unread } = this;
    button.hidden = this.following || this.atEnd;
    const text = unread ? fill(unread === 1 ? words.oneNew : words.manyNew, unread) : words.jump;
    const label = button.querySelector(".text");
    if (label.textContent !== text) label.textContent = text;
  }
}
