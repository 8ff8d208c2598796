/**
 * Scrolling: follow the end of the transcript while output grows, unless the user has scrolled up.
 *
 * Sizes are observed after layout instead of read, so following forces no extra layout.
 */

import { fill } from "../../shared/texts.js";

const NEAR = 48; // pixels from the end that count as the end

export class ScrollPosition {
  /** @param {{log: Element, content: Element, end: Element, button: Element, texts: object}} parts */
  constructor({ log, content, end, button, texts }) {
    Object.assign(this, { log, button, texts });
    this.following = true;
    this.atEnd = true;
    this.unread = 0;
    const sizes = new ResizeObserver(() => this.following && this.toEnd());
    sizes.observe(log);
    sizes.observe(content);
    new IntersectionObserver(([entry]) => this.#setAtEnd(entry.isIntersecting), { root: log, rootMargin: `0px 0px ${NEAR}px 0px` }).observe(end);
    log.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && this.#leave(), { passive: true });
    log.addEventListener("touchmove", () => this.#leave(), { passive: true });
    log.addEventListener("keydown", ({ key }) => ["ArrowUp", "PageUp", "Home"].includes(key) && this.#leave());
    log.addEventListener("scroll", () => this.#handleScroll(), { passive: true });
  }

  /** Scroll to the end and follow it. */
  toEnd() {
    this.following = true;
    this.log.scrollTop = this.log.scrollHeight;
    this.#setUnread(0);
  }

  /** Stop following because the view moves elsewhere. */
  stopFollowing() {
    this.#leave();
  }

  /** Count a new message. */
  addUnread() {
    if (!this.following) this.#setUnread(this.unread + 1);
  }

  /** Insert content above without moving what the user reads. */
  preservePosition(change) {
    const { log } = this;
    const below = log.scrollHeight - log.scrollTop;
    log.style.overflowAnchor = "none"; // otherwise the browser would adjust the position too
    change();
    log.scrollTop = log.scrollHeight - below;
    requestAnimationFrame(() => log.style.removeProperty("overflow-anchor"));
  }

  #leave() {
    // A transcript that fits the screen cannot be scrolled.
    if (this.log.scrollHeight > this.log.clientHeight) this.following = false;
    this.#draw();
  }

  #handleScroll() {
    if (this.following) return;
    const { scrollHeight, scrollTop, clientHeight } = this.log;
    if (scrollHeight - scrollTop - clientHeight > 4) return;
    this.following = true;
    this.#setUnread(0);
  }

  #setAtEnd(atEnd) {
    this.atEnd = atEnd;
    if (!atEnd) this.following = false;
    this.#draw();
  }

  #setUnread(unread) {
    this.unread = unread;
    this.#draw();
  }

  #draw() {
    const { button, texts, unread } = this;
    button.hidden = this.following || this.atEnd;
    const text = unread ? fill(unread === 1 ? texts.oneNew : texts.manyNew, unread) : texts.jump;
    const label = button.querySelector(".text");
    if (label.textContent !== text) label.textContent = text;
  }
}
