/**
 * The question of one tool call in its conversation: for who may answer, the command and two buttons; for others, that it waits.
 *
 * What an open question looks like is made by the server, for the one who reads. An answered one is a line, made here.
 */

import { momentOf } from "../../shared/relative_times.js";
import { count } from "../../approvals/countdown.js";
import { holdBack } from "../../approvals/read_gate.js";
import { extentWords } from "../../shared/grant_texts.js";
import { everySecond } from "../../shared/timing.js";
import { fill } from "../../shared/texts.js";

const AGAIN_MS = 5000;
const ROOMY = matchMedia("(min-width: 40rem)"); // elsewhere the command and the answers fill the screen, and the rest is folded

export class ApprovalBox {
  constructor({ words, holder }) {
    Object.assign(this, { words, holder });
    holder.addEventListener("submit", (event) => this.#send(event));
  }

  /** @param {{id, status, decision?, by?, reason?, decidedAt?, granted?}} approval as the history or an event tells it */
  show(approval) {
    this.approval = { ...this.approval, ...approval };
    this.holder.hidden = false;
    if (this.approval.status === "pending") return this.#load();
    this.#stop();
    this.holder.replaceChildren(ended(this.approval, this.words));
  }

  /** Something was told about a question: if it is this one, look at it again. */
  heard(id) {
    if (id === this.approval.id && this.approval.status === "pending") this.#load();
  }

  async #load() {
    if (this.#isBusy()) return;
    const { id } = this.approval;
    const answer = await fetch(`/approvals/${id}/in-chat/`, { headers: { "HX-Request": "true" } }).catch(() => null);
    await this.#take(answer, id);
  }

  async #send(event) {
    event.preventDefault();
    const { target: form, submitter } = event;
    const body = new FormData(form, submitter);
    submitter.disabled = true;
    const answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } }).catch(() => null);
    if (answer && [200, 400, 403, 409].includes(answer.status)) return this.#take(answer, this.approval.id);
    submitter.disabled = false; // nothing is known of it: it can be pressed again, the first answer counts
  }

  async #take(answer, id) {
    if (answer?.headers.has("HX-Refresh")) return location.reload(); // signed out
    const text = answer?.headers.get("Content-Type")?.startsWith("text/html") ? await answer.text() : "";
    const told = new DOMParser().parseFromString(text, "text/html").querySelector(".question");
    if (id !== this.approval.id || (this.approval.status !== "pending" && told?.dataset.status === "pending")) return; // it came late
    if (!told) return this.#later();
    const focused = this.holder.contains(document.activeElement);
    const question = document.adoptNode(told);
    const folded = question.querySelector(".facts-fold");
    if (folded) folded.open = this.holder.querySelector(".facts-fold")?.open ?? ROOMY.matches;
    this.holder.replaceChildren(question);
    this.approval.status = question.dataset.status;
    holdBack(question);
    count(this.holder, this.words);
    this.stop ??= everySecond(() => count(this.holder, this.words));
    if (focused) {
      question.tabIndex = -1;
      question.focus({ preventScroll: true });
    }
  }

  /** The server did not answer. */
  #later() {
    if (!this.holder.firstChild) this.holder.append(line(this.words.approvalLost));
    setTimeout(() => this.approval.status === "pending" && this.holder.isConnected && this.#load(), AGAIN_MS);
  }

  /** Somebody writes a reason: the question stays as it is. */
  #isBusy() {
    return Boolean(this.holder.querySelector("input[name=reason]")?.value);
  }

  #stop() {
    this.stop?.();
    this.stop = null;
  }
}

function ended({ status, decision, by, reason, decidedAt, granted }, words) {
  const did = by ? words[`did${decision.replace(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase())}`] : "";
  const element = line("");
  const what = document.createElement("strong");
  what.textContent = did ? [fill(did, by), extentOf(decision, granted, words)].filter(Boolean).join(" ") : (words[`ended${status[0].toUpperCase()}${status.slice(1)}`] ?? status);
  element.classList.add("ended", { denied: "bad", expired: "warn", void: "warn" }[status] ?? "good");
  element.append(what);
  if (decidedAt) element.append(" ", momentOf(decidedAt));
  if (reason) {
    const said = document.createElement("q");
    said.textContent = reason;
    element.append(" ", said);
  }
  return element;
}

function extentOf(decision, granted, words) {
  const extent = extentWords(granted, words);
  return extent && decision === "allow-always" ? `(${extent})` : extent;
}

function line(text) {
  const element = document.createElement("p");
  element.textContent = text;
  return element;
}
