/** Everything of one run in one section: what was asked, the answers, the tools, and a line that says how it goes or how it ended. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeHint } from "../../shared/run_reasons.js";

export class RunView {
  constructor(runId, texts) {
    Object.assign(this, { runId, texts });
    this.box = cloneTemplate("run");
    this.ending = this.box.querySelector(".ending");
    this.userMessage = null; // the person's message
    this.acknowledged = false; // the server has told of it
    this.isOperation = false; // it answers nobody, so there is nothing to ask again
    this.messages = [];
    this.cards = [];
  }

  /** Put an element at the end of what is there, above the last line. */
  add(element) {
    this.ending.before(element);
  }

  /** How it goes: queued, working, waiting. */
  setState(state, text) {
    this.#draw(state, text, "", false);
  }

  /** How it ended; nothing to say when it went well. */
  showEnd(text = "", { bad = false, kind = "" } = {}) {
    this.#draw(bad ? "failed" : "ended", text, bad ? describeHint(kind, this.texts) : "", Boolean(text) && !this.isOperation);
  }

  /** It was stopped, with or without having said something. */
  showStopped() {
    const hasOutput = this.cards.length || this.messages.some(({ text }) => text);
    this.showEnd(hasOutput ? this.texts.aborted : this.texts.abortedUnanswered);
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

  #draw(state, text, advice, again) {
    this.ending.dataset.state = state;
    const note = this.ending.querySelector(".note");
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", state === "failed");
    setText(this.ending.querySelector(".hint"), advice);
    this.ending.querySelector("button").hidden = !again;
  }
}
