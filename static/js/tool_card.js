/** One tool call as people see it: its name, arguments, verdict and result. What tools say enters the page as text nodes only. */

import { copyOf, fill } from "./template.js";

export class ToolCard {
  constructor(name, words) {
    this.words = words;
    this.element = copyOf("tool-card");
    this.#at(".name").textContent = name;
    this.#at(".status").textContent = words.toolRunning;
  }

  showArguments(args) {
    this.#at(".arguments pre").textContent = JSON.stringify(args, null, 2);
  }

  showOutput(output) {
    this.#at(".result").hidden = false;
    this.#at(".result pre").textContent = typeof output === "string" ? output : JSON.stringify(output, null, 2);
  }

  showResult(text, isError, meta) {
    const { words } = this;
    const refused = meta?.verdict === "refused";
    this.element.dataset.status = isError ? "failed" : "done";
    this.#at(".status").textContent = refused ? "" : isError ? words.toolFailed : words.toolDone;
    this.#at(".verdict").classList.toggle("refused", refused);
    this.#at(".verdict").textContent = refused ? (meta.layer ? fill(words.toolRefusedBy, meta.layer) : words.toolRefused) : words.toolAllowed;
    this.showOutput(text);
  }

  /** Its run has ended: a call without a result was cut off. */
  settle() {
    if (this.element.dataset.status !== "running") return;
    this.element.dataset.status = "failed";
    this.#at(".status").textContent = this.words.toolStopped;
  }

  #at(selector) {
    return this.element.querySelector(selector);
  }
}
