/**
 * What a conversation looks like. Stored messages and live events end in the same elements.
 *
 * Words of people, agents and tools are data: they enter the page as text nodes, or as HTML that the server made of them.
 */

import { showUnderWay } from "./live_events.js";
import { AgentMessage, UserMessage } from "./message.js";
import { RunView } from "./run_view.js";
import { addStored } from "./stored_messages.js";
import { ToolCard } from "./tool_card.js";

export class Transcript {
  /** `page` is {words, renderer, username, address, explain, letAsk}. onRuns({unfinished, waiting}), onAnswer(text), onAsked(tool) and onNews() may be set by their listeners. */
  constructor({ root, page }) {
    Object.assign(this, { root, page, words: page.words, onRuns: () => {}, onAnswer: () => {}, onAsked: () => {}, onNews: () => {} });
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.runs = new Map(); // run id → RunView
    this.unfinished = new Set();
    this.waiting = new Set();
    this.messages = new Map(); // message id → AgentMessage
    this.tools = new Map(); // call id → ToolCard
    this.ends = new Map(); // call id → how its command ended in the background
    this.older = null; // while older messages are put before the others
    this.#tellRuns();
  }

  get isEmpty() {
    return !this.root.hasChildNodes();
  }

  /** Add what is stored, and what is under way just now. What is shown already stays as it is. */
  show({ messages, queued, activeRun: active }) {
    this.add(messages);
    if (active) showUnderWay(this, active);
    for (const run of queued ?? []) {
      if (run.operation) {
        this.operates(run.runId);
        continue;
      }
      const content = [{ type: "text", text: run.text }, ...(run.attachments ?? [])];
      this.accepted(run.runId, { content, timestamp: run.acceptedAt, truncated: run.truncated, sender: run.sender });
    }
    this.#settleEnded();
  }

  add(messages) {
    messages.forEach((message) => addStored(this, message));
  }

  /** Older messages, before all that is shown. Of a run that goes across the border they stand at its top. */
  prepend(messages) {
    this.older = { top: new DocumentFragment(), runs: new Map(), made: new Set() };
    this.add(messages);
    for (const [run, part] of this.older.runs) run.box.prepend(part);
    this.root.prepend(this.older.top);
    this.older = null;
    this.#settleEnded();
  }

  /** Somebody's message, shown once however often it is told: by us when sending, then by the server. */
  asked(runId, message, note) {
    const run = this.begin(runId, note);
    if (!run.asked) {
      run.asked = new UserMessage(this.page);
      run.asked.show(message);
      run.box.prepend(run.asked.element);
      this.onNews();
    }
    run.asked.know(message);
  }

  accepted(runId, message) {
    this.run(runId).told = true;
    this.asked(runId, message, this.words.queued);
    this.goes(runId, "queued", this.words.queued);
  }

  /** A run without a message waits for its turn: it will summarise the conversation. */
  operates(runId) {
    const run = this.run(runId);
    run.asked?.element.remove(); // the command was taken for a message while it was sent
    Object.assign(run, { told: true, operates: true, asked: null });
    this.goes(runId, "queued", this.words.willSummarise);
  }

  /** The server has told of this run. */
  knows(runId) {
    return Boolean(this.runs.get(runId)?.told);
  }

  /** How far the sending of a message has come; what the server tells of its run counts for more. */
  mark(runId, note) {
    const run = this.runs.get(runId);
    if (run && !run.told) run.goes("queued", note);
  }

  /** Take back a message that never became a run. False when it did: its own events tell how it ended. */
  unsend(runId) {
    const run = this.runs.get(runId);
    if (!run || run.told) return false;
    this.withdrawn(runId);
    return true;
  }

  /** A message was taken back before its turn: as if it had never been said. */
  withdrawn(runId) {
    this.runs.get(runId)?.box.remove();
    this.runs.delete(runId);
    this.#ended(runId);
  }

  /** Hide what comes after a message, or everything. What we are sending just now stays. False when the message is not here. */
  keepThrough(messageId) {
    const last = messageId ? this.find(messageId) : null;
    if (messageId && !last) return false;
    const box = last?.closest(".run") ?? last;
    for (let next = last?.nextElementSibling; last !== box && next; next = last.nextElementSibling) {
      if (next.matches(".ending")) break;
      next.remove();
    }
    const unsent = new Set([...this.runs.values()].filter(({ told }) => !told).map((run) => run.box));
    for (const element of [...this.root.children]) {
      const after = !box || box.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      if (after && !unsent.has(element)) element.remove();
    }
    this.#forget();
    return true;
  }

  /** Hide a run and what comes after it, since it is asked anew. */
  dropFrom(runId) {
    const box = this.runs.get(runId)?.box;
    while (box?.nextElementSibling) box.nextElementSibling.remove();
    box?.remove();
    this.#forget();
  }

  find(messageId) {
    return this.root.querySelector(`[data-message-id="${CSS.escape(messageId)}"]`);
  }

  /** What was streamed of a message is void. The next attempt may have another id, so nothing of this one stays. */
  void(messageId) {
    const message = this.messages.get(messageId);
    if (!message || message.final) return;
    message.element.remove();
    message.thinking.clear();
    this.messages.delete(messageId);
  }

  card(runId, callId, name, args) {
    let card = this.tools.get(callId);
    if (!card) {
      const { explain, letAsk } = this.page;
      card = new ToolCard({ words: this.words, name, letAsk: letAsk?.(), explained: explain && `${explain}?${new URLSearchParams({ run: runId, call: callId })}` });
      this.tools.set(callId, card);
      this.run(runId).cards.push(card);
      this.place(runId, card.element);
    }
    if (args) card.ask(args);
    return card;
  }

  message(runId, messageId) {
    let message = this.messages.get(messageId);
    if (!message) {
      message = new AgentMessage(this.page);
      message.know({ messageId });
      this.messages.set(messageId, message);
      this.run(runId).messages.push(message);
      this.place(runId, message.element);
      this.onNews();
    }
    return message;
  }

  run(runId) {
    let run = this.runs.get(runId);
    if (!run) {
      run = new RunView(runId, this.words);
      run.box.dataset.runId = runId;
      this.runs.set(runId, run);
      (this.older?.top ?? this.root).append(run.box);
      this.older?.made.add(run);
    }
    return run;
  }

  /**
   * A name for messages that belong to no run, such as those of a copied conversation: a person's message begins another, what
   * follows goes with it. The same message gets the same name again.
   */
  looseRun({ role, messageId }) {
    const known = messageId && this.find(messageId)?.closest(".run")?.dataset.runId;
    if (known) return known;
    const last = (this.older?.top ?? this.root).lastElementChild;
    if (role !== "user" && last?.dataset.runId?.startsWith("loose-")) return last.dataset.runId;
    return `loose-${messageId}`;
  }

  /** What belongs to a run stands with it, even when another message was queued meanwhile. */
  place(runId, element) {
    const run = this.run(runId);
    if (!this.older || this.older.made.has(run)) return run.add(element);
    if (!this.older.runs.has(run)) this.older.runs.set(run, new DocumentFragment());
    this.older.runs.get(run).append(element);
  }

  begin(runId, note) {
    const run = this.run(runId);
    if (!this.unfinished.has(runId)) {
      this.unfinished.add(runId);
      run.goes("queued", note);
      this.#tellRuns();
    }
    return run;
  }

  goes(runId, state, text) {
    this.begin(runId, text).goes(state, text);
    this.#tellRuns();
  }

  /** `tell` says in the run's last line how it ended. */
  finish(runId, ts, tell) {
    const run = this.run(runId);
    run.settle(ts);
    tell(run);
    this.#ended(runId);
  }

  #settleEnded() {
    for (const [runId, run] of this.runs) if (!this.unfinished.has(runId)) run.settle();
  }

  #ended(runId) {
    this.waiting.delete(runId);
    if (this.unfinished.delete(runId)) this.#tellRuns();
  }

  #tellRuns() {
    this.onRuns({ unfinished: this.unfinished.size, waiting: this.waiting.size > 0 });
  }

  /** Elements were taken away: so is what we know of them. */
  #forget() {
    for (const [id, { element }] of this.messages) if (!element.isConnected) this.messages.delete(id);
    for (const [id, { element }] of this.tools) if (!element.isConnected) this.tools.delete(id);
    for (const [id, { box }] of this.runs) {
      if (box.isConnected) continue;
      this.runs.delete(id);
      this.#ended(id);
    }
  }
}
