/** The model's thinking: collapsed, with a running timer and then its duration. */

import { setText } from "../../shared/elements.js";
import { formatDuration, formatElapsed } from "../../shared/formats.js";
import { everySecond, nextFrame } from "../../shared/timing.js";

export class Thinking {
  constructor(root, texts) {
    Object.assign(this, { root, texts });
    this.node = document.createTextNode("");
    root.querySelector(".text").append(this.node);
    this.label = root.querySelector(".label");
    this.time = root.querySelector(".duration");
    this.paint = this.paint.bind(this);
    this.clear();
  }

  clear() {
    this.#stopClock();
    this.text = "";
    this.length = 0;
    this.startedAt = null; // when the first text arrived, by the server's clock
    this.paint();
  }

  /** Add live text. `ts` is the server's time of the event; null if the start is unknown. */
  write(offset, text, ts = null) {
    if (!text) return;
    this.text = (offset === this.length ? this.text : [...this.text].slice(0, offset).join("")) + text;
    this.length = Math.min(offset, this.length) + [...text].length;
    if (this.startedAt === null && ts !== null) this.#startClock(ts);
    nextFrame(this.paint);
  }

  /** Thinking ended at `ts`, when an answer or a tool call started. */
  end(ts) {
    if (!this.stopClock) return;
    this.#stopClock();
    this.#showDuration(ts - this.startedAt);
  }

  settle(text, durationMs = null) {
    const duration = durationMs ?? this.duration ?? null;
    this.#stopClock();
    this.text = text;
    this.length = [...text].length;
    this.paint();
    this.#showDuration(duration);
  }

  paint() {
    if (this.text.startsWith(this.node.data)) this.node.appendData(this.text.slice(this.node.data.length));
    else this.node.data = this.text;
    this.root.hidden = !this.text;
  }

  #startClock(ts) {
    this.startedAt = ts;
    const localStart = Date.now();
    setText(this.label, this.texts.thinking);
    this.root.classList.add("going-on");
    const tick = () => setText(this.time, formatElapsed(Date.now() - localStart, this.texts));
    this.stopClock = everySecond(tick);
  }

  #stopClock() {
    this.stopClock?.();
    this.stopClock = null;
    this.root.classList.remove("going-on");
  }

  #showDuration(ms) {
    this.duration = ms;
    setText(this.label, ms === null ? this.texts.thinking : this.texts.thoughtFor);
    setText(this.time, ms === null ? "" : formatDuration(ms, this.texts));
  }
}
