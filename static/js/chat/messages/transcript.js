/**
 * The messages of a session. Stored messages and live events share the same elements.
 *
 * Text of users, agents and tools is data: it enters the page as text nodes, or as HTML rendered by the server.
 */

import { showActiveRun } from "./live_events.js";
import { AgentMessage, UserMessage } from "./message.js";
import { RunView } from "./run_view.js";
import { addStored } from "./stored_messages.js";
import { ToolCard } from "./tool_card.js";

export class Transcript {
  /**
   * `page` is {texts, renderer, username, urlFor, explainUrl, allowRequestsUrl}. To listen, assign onRuns({unfinished, waiting}),
   * onAnswer(text), onApprovalRequested(tool) and onNewMessage().
   */
  constructor({ root, page }) {
    Object.assign(this, {
      root,
      page,
      texts: page.texts,
      onRuns: () => {},
      onAnswer: () => {},
      onApprovalRequested: () => {},
      onNewMessage: () => {},
    });
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.runs = new Map(); // run ID → RunView
    this.unfinished = new Set();
    this.waiting = new Set();
    this.messages = new Map(); // message ID → AgentMessage
    this.tools = new Map(); // call ID → ToolCard
    this.commandEnds = new Map(); // call ID → how its background command ended
    this.prepending = null; // state while older messages are being prepended
    this.#notifyRuns();
  }

  get isEmpty() {
    return !this.root.hasChildNodes();
  }

  /** Add stored messages and the runs in progress. Elements that are already shown stay. */
  show({ messages, queued, activeRun: active }) {
    this.add(messages);
    if (active) showActiveRun(this, active);
    for (const run of queued ?? []) {
      if (run.operation) {
        this.addOperation(run.runId);
        continue;
      }
      const content = [{ type: "text", text: run.text }, ...(run.attachments ?? [])];
      this.addAccepted(run.runId, { content, timestamp: run.acceptedAt, truncated: run.truncated, sender: run.sender });
    }
    this.#settleEnded();
  }

  add(messages) {
    messages.forEach((message) => addStored(this, message));
  }

  /** Add older messages above all others. If a run spans two pages, they go to its top. */
  prepend(messages) {
    this.prepending = { top: new DocumentFragment(), runs: new Map(), createdRuns: new Set() };
    this.add(messages);
    for (const [run, part] of this.prepending.runs) run.box.prepend(part);
    this.root.prepend(this.prepending.top);
    this.prepending = null;
    this.#settleEnded();
  }

  /** Show a user's message once: first when sending, then as reported by the server. */
  showUserMessage(runId, message, note) {
    const run = this.startRun(runId, note);
    if (!run.userMessage) {
      run.userMessage = new UserMessage(this.page);
      run.userMessage.show(message);
      run.box.prepend(run.userMessage.element);
      this.onNewMessage();
    }
    run.userMessage.update(message);
  }

  addAccepted(runId, message) {
    this.getRun(runId).acknowledged = true;
    this.showUserMessage(runId, message, this.texts.queued);
    this.setState(runId, "queued", this.texts.queued);
  }

  /** Add a queued run without a message, which will summarize the history. */
  addOperation(runId) {
    const run = this.getRun(runId);
    run.userMessage?.element.remove(); // the command was shown as a message while being sent
    Object.assign(run, { acknowledged: true, isOperation: true, userMessage: null });
    this.setState(runId, "queued", this.texts.willSummarise);
  }

  /** Whether the server has reported this run. */
  isAcknowledged(runId) {
    return Boolean(this.runs.get(runId)?.acknowledged);
  }

  /** Show the progress of sending, unless the server has already reported the run. */
  setSendingNote(runId, note) {
    const run = this.runs.get(runId);
    if (run && !run.acknowledged) run.setState("queued", note);
  }

  /** Remove a message that never became a run. Returns false if it did: the run's events report how it ended. */
  removeUnsent(runId) {
    const run = this.runs.get(runId);
    if (!run || run.acknowledged) return false;
    this.removeRun(runId);
    return true;
  }

  /** Remove a run whose message was recalled. */
  removeRun(runId) {
    this.runs.get(runId)?.box.remove();
    this.runs.delete(runId);
    this.#markEnded(runId);
  }

  /**
   * Remove everything after a message, or everything if `messageId` is null, except messages being sent. Returns false if the
   * message is not displayed.
   */
  truncateAfter(messageId) {
    const lastElement = messageId ? this.find(messageId) : null;
    if (messageId && !lastElement) return false;
    const box = lastElement?.closest(".run") ?? lastElement;
    for (let next = lastElement?.nextElementSibling; lastElement !== box && next; next = lastElement.nextElementSibling) {
      if (next.matches(".ending")) break;
      next.remove();
    }
    const unsent = new Set([...this.runs.values()].filter(({ acknowledged }) => !acknowledged).map((run) => run.box));
    for (const element of [...this.root.children]) {
      const after = !box || box.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (after && !unsent.has(element)) element.remove();
    }
    this.#forgetDetached();
    return true;
  }

  /** Remove a run and everything after it, because it is being retried. */
  removeFrom(runId) {
    const box = this.runs.get(runId)?.box;
    while (box?.nextElementSibling) box.nextElementSibling.remove();
    box?.remove();
    this.#forgetDetached();
  }

  find(messageId) {
    return this.root.querySelector(`[data-message-id="${CSS.escape(messageId)}"]`);
  }

  /** Discard the streamed text of a message. The next attempt may have another ID. */
  discardMessage(messageId) {
    const message = this.messages.get(messageId);
    if (!message || message.final) return;
    message.element.remove();
    message.thinking.clear();
    this.messages.delete(messageId);
  }

  getCard(runId, callId, name, args) {
    let card = this.tools.get(callId);
    if (!card) {
      const { explainUrl, allowRequestsUrl } = this.page;
      card = new ToolCard({
        texts: this.texts,
        name,
        allowRequestsUrl: allowRequestsUrl?.(),
        explainUrl: explainUrl && `${explainUrl}?${new URLSearchParams({ run: runId, call: callId })}`,
      });
      this.tools.set(callId, card);
      this.getRun(runId).cards.push(card);
      this.addToRun(runId, card.element);
    }
    if (args) card.showArguments(args);
    return card;
  }

  getMessage(runId, messageId) {
    let message = this.messages.get(messageId);
    if (!message) {
      message = new AgentMessage(this.page);
      message.update({ messageId });
      this.messages.set(messageId, message);
      this.getRun(runId).messages.push(message);
      this.addToRun(runId, message.element);
      this.onNewMessage();
    }
    return message;
  }

  getRun(runId) {
    let run = this.runs.get(runId);
    if (!run) {
      run = new RunView(runId, this.texts);
      run.box.dataset.runId = runId;
      this.runs.set(runId, run);
      (this.prepending?.top ?? this.root).append(run.box);
      this.prepending?.createdRuns.add(run);
    }
    return run;
  }

  /**
   * Return a run ID for messages without a run, such as those of a forked session. Each user message starts a group that includes
   * the messages after it. The same message always gets the same ID.
   */
  getLooseRunId({ role, messageId }) {
    const existingRunId = messageId && this.find(messageId)?.closest(".run")?.dataset.runId;
    if (existingRunId) return existingRunId;
    const lastElement = (this.prepending?.top ?? this.root).lastElementChild;
    if (role !== "user" && lastElement?.dataset.runId?.startsWith("loose-")) return lastElement.dataset.runId;
    return `loose-${messageId}`;
  }

  /** Add an element to its run, even if other messages were queued since. */
  addToRun(runId, element) {
    const run = this.getRun(runId);
    if (!this.prepending || this.prepending.createdRuns.has(run)) return run.add(element);
    if (!this.prepending.runs.has(run)) this.prepending.runs.set(run, new DocumentFragment());
    this.prepending.runs.get(run).append(element);
  }

  startRun(runId, note) {
    const run = this.getRun(runId);
    if (!this.unfinished.has(runId)) {
      this.unfinished.add(runId);
      run.setState("queued", note);
      this.#notifyRuns();
    }
    return run;
  }

  setState(runId, state, text) {
    this.startRun(runId, text).setState(state, text);
    this.#notifyRuns();
  }

  /** Finish a run. `showEnd(run)` shows how it ended. */
  finish(runId, ts, showEnd) {
    const run = this.getRun(runId);
    run.settle(ts);
    showEnd(run);
    this.#markEnded(runId);
  }

  #settleEnded() {
    for (const [runId, run] of this.runs) if (!this.unfinished.has(runId)) run.settle();
  }

  #markEnded(runId) {
    this.waiting.delete(runId);
    if (this.unfinished.delete(runId)) this.#notifyRuns();
  }

  #notifyRuns() {
    this.onRuns({ unfinished: this.unfinished.size, waiting: this.waiting.size > 0 });
  }

  /** Forget messages, tool cards and runs whose elements were removed. */
  #forgetDetached() {
    for (const [id, { element }] of this.messages) if (!element.isConnected) this.messages.delete(id);
    for (const [id, { element }] of this.tools) if (!element.isConnected) this.tools.delete(id);
    for (const [id, { box }] of this.runs) {
      if (box.isConnected) continue;
      this.runs.delete(id);
      this.#markEnded(id);
    }
  }
}
