/** One run: the user's message, answers, tool calls, and a footer with its state or how it ended. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeHint } from "../../shared/run_reasons.js";

export class RunView {
  constructor(runId, texts) {
    Object.assign(this, { runId, texts });
    this.box = cloneTemplate("run");
    this.ending = this.box.querySelector(".ending");
    this.userMessage = null; // UserMessage
    this.acknowledged = false; // the server has reported this run
    this.isOperation = false; // maintenance such as compaction, which cannot be retried
    this.messages = [];
    this.cards = [];
  }

  /** Append an element above the footer. */
  add(element) {
    this.ending.before(element);
  }

  /** Show the state: queued, working or waiting. */
  setState(state, text) {
    this.#render(state, text, "", false);
  }

  /** Show how the run ended; `text` is empty on success. */
  showEnd(text = "", { bad = false, kind = "" } = {}) {
    this.#render(bad ? "failed" : "ended", text, bad ? describeHint(kind, this.texts) : "", Boolean(text) && !this.isOperation);
  }

  /** Show that the run was stopped, with or without output. */
  showStopped() {
    const hasOutput = this.cards.length || this.messages.some(({ text }) => text);
    this.showEnd(hasOutput ? this.texts.aborted : this.texts.abortedUnanswered);
  }

  /** The run has ended: finish its messages and cards. */
  settle(ts) {
    this.messages.forEach((message) => message.interrupt(ts));
    this.cards.forEach((card) => card.interrupt());
  }

  /** The last message with text shows the facts about the run. */
  get last() {
    return this.messages.findLast(({ text }) => text) ?? this.messages.at(-1);
  }

  #render(state, text, hint, canRetry) {
    this.ending.dataset.state = state;
    const note = this.ending.querySelector(".note");
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", state === "failed");
    setText(this.ending.querySelector(".hint"), hint);
    this.ending.querySelector("button").hidden = !canRetry;
  }
}
