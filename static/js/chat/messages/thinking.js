/** What a model thought before it answered: folded, with a timer while it goes on and its duration afterwards. */

import { put } from "../../shared/elements.js";
import { counted, duration } from "../../shared/formats.js";
import { everySecond, nextFrame } from "../../shared/timing.js";

export class Thinking {
  constructor(root, words) {
    Object.assign(this, { root, words });
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
    this.began = null; // when its first words came, by the server's clock
    this.paint();
  }

  /** Live words. `ts` is the server's time of the event; null when it is not known how long it has been going on. */
  write(offset, text, ts = null) {
    if (!text) return;
    this.text = (offset === this.length ? this.text : [...this.text].slice(0, offset).join("")) + text;
    this.length = Math.min(offset, this.length) + [...text].length;
    if (this.began === null && ts !== null) this.#startClock(ts);
    nextFrame(this.paint);
  }

  /** It is over at `ts`: the answer has begun, or a tool. */
  end(ts) {
    if (!this.stopClock) return;
    this.#stopClock();
    this.#tell(ts - this.began);
  }

  settle(text, durationMs = null) {
    const took = durationMs ?? this.took ?? null;
    this.#stopClock();
    this.text = text;
    this.length = [...text].length;
    this.paint();
    this.#tell(took);
  }

  paint() {
    if (this.text.startsWith(this.node.data)) this.node.appendData(this.text.slice(this.node.data.length));
    else this.node.data = this.text;
    this.root.hidden = !this.text;
  }

  #startClock(ts) {
    this.began = ts;
    const from = Date.now();
    put(this.label, this.words.thinking);
    this.root.classList.add("going-on");
    const tick = () => put(this.time, counted(Date.now() - from, this.words));
    this.stopClock = everySecond(tick);
  }

  #stopClock() {
    this.stopClock?.();
    this.stopClock = null;
    this.root.classList.remove("going-on");
  }

  #tell(ms) {
    this.took = ms;
    put(this.label, ms === null ? this.words.thinking : this.words.thoughtFor);
    put(this.time, ms === null ? "" : duration(ms, this.words));
  }
}
