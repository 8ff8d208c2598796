/**
 * Follows the end of the transcript while output grows, unless the user has scrolled up.
 *
 * Sizes are observed after layout instead of read, so following forces no extra layout.
 */

import { fill } from "../../shared/texts.js";

const END_MARGIN_PIXELS = 48; // this close to the end counts as the end

export class ScrollPosition {
  /** @param {{log: Element, content: Element, end: Element, button: Element, texts: object}} parts */
  constructor({ log, content, end, button, texts }) {
    Object.assign(this, { log, button, texts });
    this.following = true;
    this.atEnd = true;
    this.unread = 0;
    const resizeObserver = new ResizeObserver(() => this.following && this.toEnd());
    resizeObserver.observe(log);
    resizeObserver.observe(content);
    new IntersectionObserver(([entry]) => this.#setAtEnd(entry.isIntersecting), {
      root: log,
      rootMargin: `0px 0px ${END_MARGIN_PIXELS}px 0px`,
    }).observe(end);
    log.addEventListener("wheel", ({ deltaY }) => deltaY < 0 && this.#unfollow(), { passive: true });
    log.addEventListener("touchmove", () => this.#unfollow(), { passive: true });
    log.addEventListener("keydown", ({ key }) => ["ArrowUp", "PageUp", "Home"].includes(key) && this.#unfollow());
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
    this.#unfollow();
  }

  /** Count a new message as unread, unless the end is being followed. */
  addUnread() {
    if (!this.following) this.#setUnread(this.unread + 1);
  }

  /** Insert content above without moving the visible part. */
  preservePosition(change) {
    const { log } = this;
    const distanceFromEnd = log.scrollHeight - log.scrollTop;
    log.style.overflowAnchor = "none"; // otherwise the browser would adjust the position too
    change();
    log.scrollTop = log.scrollHeight - distanceFromEnd;
    requestAnimationFrame(() => log.style.removeProperty("overflow-anchor"));
  }

  #unfollow() {
    // A transcript that fits the screen cannot be scrolled.
    if (this.log.scrollHeight > this.log.clientHeight) this.following = false;
    this.#render();
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
    this.#render();
  }

  #setUnread(unread) {
    this.unread = unread;
    this.#render();
  }

  #render() {
    const { button, texts, unread } = this;
    button.hidden = this.following || this.atEnd;
    const text = unread ? fill(unread === 1 ? texts.oneNew : texts.manyNew, unread) : texts.jump;
    const label = button.querySelector(".text");
    if (label.textContent !== text) label.textContent = text;
  }
}
