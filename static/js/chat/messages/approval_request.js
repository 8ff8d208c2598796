/**
 * The approval request of a tool call, in the chat: the command with decision buttons for approvers, a waiting note for others.
 *
 * The server renders pending requests for the current user. Decided ones are a single line, rendered here.
 */

import { updateCountdowns } from "../../approvals/countdown.js";
import { holdUntilRead } from "../../approvals/read_gate.js";
import { describeExtent } from "../../shared/grant_texts.js";
import { createTimeElement } from "../../shared/relative_times.js";
import { fill } from "../../shared/texts.js";
import { everySecond } from "../../shared/timing.js";

const RETRY_MS = 5000;
// On narrow screens the command and buttons fill the screen, so details are collapsed.
const wideScreen = matchMedia("(min-width: 40rem)");

export class ApprovalRequestView {
  constructor({ texts, container }) {
    Object.assign(this, { texts, container });
    container.addEventListener("submit", (event) => this.#send(event));
  }

  /** @param {{id, status, decision?, by?, reason?, decidedAt?, granted?}} approval as in the history and in events */
  show(approval) {
    this.approval = { ...this.approval, ...approval };
    this.container.hidden = false;
    if (this.approval.status === "pending") return this.#load();
    this.#stopCountdown();
    this.container.replaceChildren(renderDecision(this.approval, this.texts));
  }

  /** Reload on an event about this request. */
  refresh(id) {
    if (id === this.approval.id && this.approval.status === "pending") this.#load();
  }

  async #load() {
    if (this.#isReasonEntered()) return;
    const { id } = this.approval;
    const response = await fetch(`/approvals/${id}/in-chat/`, { headers: { "HX-Request": "true" } }).catch(() => null);
    await this.#showResponse(response, id);
  }

  async #send(event) {
    event.preventDefault();
    const { target: form, submitter } = event;
    const body = new FormData(form, submitter);
    submitter.disabled = true;
    const response = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } }).catch(() => null);
    if (response && [200, 400, 403, 409].includes(response.status)) return this.#showResponse(response, this.approval.id);
    submitter.disabled = false; // outcome unknown: allow a retry, the first decision counts
  }

  async #showResponse(response, id) {
    if (response?.headers.has("HX-Refresh")) return location.reload(); // signed out
    const text = response?.headers.get("Content-Type")?.startsWith("text/html") ? await response.text() : "";
    const newCard = new DOMParser().parseFromString(text, "text/html").querySelector(".question");
    // Ignore an outdated response.
    if (id !== this.approval.id || (this.approval.status !== "pending" && newCard?.dataset.status === "pending")) return;
    if (!newCard) return this.#retryLater();
    const hadFocus = this.container.contains(document.activeElement);
    const card = document.adoptNode(newCard);
    const details = card.querySelector(".facts-fold");
    if (details) details.open = this.container.querySelector(".facts-fold")?.open ?? wideScreen.matches;
    this.container.replaceChildren(card);
    this.approval.status = card.dataset.status;
    holdUntilRead(card);
    updateCountdowns(this.container, this.texts);
    this.stopCountdown ??= everySecond(() => updateCountdowns(this.container, this.texts));
    if (hadFocus) {
      card.tabIndex = -1;
      card.focus({ preventScroll: true });
    }
  }

  /** Retry later, because there was no usable response. */
  #retryLater() {
    if (!this.container.firstChild) this.container.append(createLine(this.texts.approvalLost));
    setTimeout(() => this.approval.status === "pending" && this.container.isConnected && this.#load(), RETRY_MS);
  }

  /** Don't replace the card while the user is entering a reason. */
  #isReasonEntered() {
    return Boolean(this.container.querySelector("input[name=reason]")?.value);
  }

  #stopCountdown() {
    this.stopCountdown?.();
    this.stopCountdown = null;
  }
}

function renderDecision({ status, decision, by, reason, decidedAt, granted }, texts) {
  const action = by ? texts[`did${decision.replace(/(?:^|-)(\w)/g, (_, letter) => letter.toUpperCase())}`] : "";
  const element = createLine("");
  const summary = document.createElement("strong");
  summary.textContent = action
    ? [fill(action, by), describeDecisionExtent(decision, granted, texts)].filter(Boolean).join(" ")
    : (texts[`ended${status[0].toUpperCase()}${status.slice(1)}`] ?? status);
  element.classList.add("ended", { denied: "bad", expired: "warn", void: "warn" }[status] ?? "good");
  element.append(summary);
  if (decidedAt) element.append(" ", createTimeElement(decidedAt));
  if (reason) {
    const quote = document.createElement("q");
    quote.textContent = reason;
    element.append(" ", quote);
  }
  return element;
}

function describeDecisionExtent(decision, granted, texts) {
  const extent = describeExtent(granted, texts);
  return extent && decision === "allow-always" ? `(${extent})` : extent;
}

function createLine(text) {
  const element = document.createElement("p");
  element.textContent = text;
  return element;
}
