/** Everything of one run in one section: what was asked, the answers, the tools, and a line that says how it goes or how it ended. */

import { copyOf, put } from "../../shared/elements.js";
import { hint } from "../../shared/run_reasons.js";

export class RunView {
  constructor(runId, words) {
    Object.assign(this, { runId, words });
    this.box = copyOf("run");
    this.ending = this.box.querySelector(".ending");
    this.asked = null; // the person's message
    this.told = false; // the server has told of it
    this.operates = false; // it answers nobody, so there is nothing to ask again
    this.messages = [];
    this.cards = [];
  }

  /** Put an element at the end of what is there, above the last line. */
  add(element) {
    this.ending.before(element);
  }

  /** How it goes: queued, working, waiting. */
  goes(state, text) {
    this.#say(state, text, "", false);
  }

  /** How it ended; nothing to say when it went well. */
  ended(text = "", { bad = false, kind = "" } = {}) {
    this.#say(bad ? "failed" : "ended", text, bad ? hint(kind, this.words) : "", Boolean(text) && !this.operates);
  }

  /** It was stopped, with or without having said something. */
  stopped() {
    const said = this.cards.length || this.messages.some(({ text }) => text);
    this.ended(said ? this.words.aborted : this.words.abortedUnanswered);
  }

  /** Nothing goes on in it any more. */
  settle(ts) {
    this.messages.forEach((message) => message.breakOff(ts));
    this.cards.forEach((card) => card.cutOff());
  }

  /** The last message with words is the one that carries what is known of the whole run. */
  get last() {
    return this.messages.findLast(({ text }) => text) ?? this.messages.at(-1);
  }

  #say(state, text, advice, again) {
    this.ending.dataset.state = state;
    const note = this.ending.querySelector(".note");
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", state === "failed");
    put(this.ending.querySelector(".hint"), advice);
    this.ending.querySelector("button").hidden = !again;
  }
}
