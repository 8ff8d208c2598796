/**
 * What a conversation looks like. Stored messages and live events end in the same elements.
 *
 * Words of people, agents and tools are data: they enter the page as text nodes only, never as markup.
 */

import { blocks, textIn, textOf, write } from "./message_text.js";
import { copyOf, fill } from "./template.js";
import { ToolCard } from "./tool_card.js";

const STOPPED = ["rpc", "stop", "session-reset", "session-delete"]; // why a run was aborted; any other reason is a failure

export class Transcript {
  /** onRuns(number) is told how many runs are unfinished; onAnswer(text) hears each finished answer. */
  constructor({ root, words, onRuns, onAnswer }) {
    Object.assign(this, { root, words, onRuns, onAnswer });
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.runs = new Map(); // run id → {box, note}
    this.unfinished = new Set();
    this.messages = new Map(); // message id → {article, answer, thinking, attempt, final}
    this.tools = new Map(); // call id → card
    this.onRuns(0);
  }

  get isEmpty() {
    return !this.root.hasChildNodes();
  }

  /** Replace everything by what is stored, and by what is under way just now. */
  show({ messages, queued, activeRun: active, endedRuns = [] }) {
    this.clear();
    messages.forEach((message) => this.#stored(message));
    if (active) {
      this.#begin(active.runId, this.words.working).told = true;
      if (active.messageId && (active.text || active.thinking)) {
        const message = this.#message(active.runId, active.messageId);
        message.attempt = null; // whichever goes on
        write(message.answer, 0, active.text);
        this.#think(message, 0, active.thinking);
      }
    }
    for (const run of queued) this.#accepted(run.runId, run.text);
    endedRuns.forEach((run) => this.#endedBefore(run));
    for (const [runId, { box }] of this.runs) if (!this.unfinished.has(runId)) this.#settleTools(box);
  }

  /** A message that was kept for too long to be sent without asking. It is no run, so there is nothing to stop. */
  offer(runId, text, { send, discard }) {
    if (this.runs.get(runId)?.offered) return;
    this.unsend(runId);
    const run = this.#run(runId);
    run.offered = true;
    this.#askedIn(run, text);
    run.note.textContent = this.words.keptTooLong;
    const choice = copyOf("kept-message");
    choice.querySelector(".send").addEventListener("click", send);
    choice.querySelector(".discard").addEventListener("click", discard);
    run.box.append(choice);
  }

  /** Somebody's message, shown once however often it is told: by us when sending, then by the server. */
  asked(runId, text, note) {
    this.#askedIn(this.#begin(runId, note), text);
  }

  #askedIn(run, text) {
    if (run.asked) return;
    run.asked = true;
    const article = copyOf("user-message");
    article.querySelector(".text").textContent = text;
    run.box.prepend(article);
  }

  /** The server has told of this run. */
  knows(runId) {
    return Boolean(this.runs.get(runId)?.told);
  }

  /** How far the sending of a message has come; what the server tells of its run counts for more. */
  mark(runId, note) {
    const run = this.runs.get(runId);
    if (run && !run.told) run.note.textContent = note;
  }

  /** Take back a message that never became a run. False when it did: its own events tell how it ended. */
  unsend(runId) {
    const run = this.runs.get(runId);
    if (!run || run.told) return false;
    run.box.remove();
    this.runs.delete(runId);
    this.#ended(runId);
    return true;
  }

  apply({ runId, stream, data, change, message }) {
    if (runId) this.#run(runId).told = true;
    if (stream === "lifecycle") this.#lifecycle(runId, data);
    else if (stream === "assistant") this.#assistant(runId, data);
    else if (stream === "thinking") this.#thinking(runId, data);
    else if (stream === "tool") this.#tool(runId, data);
    else if (change && message) this.#stored(message);
  }

  #lifecycle(runId, data) {
    const { words } = this;
    switch (data.phase) {
      case "accepted":
        return this.#accepted(runId, data.prompt);
      case "start":
      case "resume":
        return this.#note(runId, words.working);
      case "waiting":
        return this.#note(runId, fill(words.waitingFor, data.reason));
      case "rescued":
        return this.#note(runId, words.resumed);
      case "retry":
        return this.#note(runId, words.retrying);
      case "end":
        return data.aborted ? this.#stopped(runId) : this.#finish(runId, "");
      case "error":
        return this.#finish(runId, fill(words.failed, data.error), true);
    }
  }

  /** A run that failed or was stopped, as the history tells it: the same words in the same place as when it was live. */
  #endedBefore({ runId, status, error, text, afterRunId }) {
    if (!this.runs.has(runId)) {
      if (text === undefined) return; // its messages are on an older page
      const run = this.#run(runId);
      run.told = true;
      this.#askedIn(run, text);
      const before = this.runs.get(afterRunId);
      if (before) before.box.after(run.box);
      else this.root.prepend(run.box);
    }
    if (status === "aborted") this.#stopped(runId);
    else this.#finish(runId, fill(this.words.failed, error), true);
  }

  #stopped(runId) {
    const { box } = this.#run(runId);
    const said = box.querySelector(".tool") || [...box.querySelectorAll(".answer")].some((answer) => answer.textContent);
    this.#finish(runId, said ? this.words.aborted : this.words.abortedUnanswered);
  }

  #accepted(runId, text) {
    this.#run(runId).told = true;
    this.asked(runId, text, this.words.queued);
    this.#note(runId, this.words.queued);
  }

  #assistant(runId, data) {
    if (data.reset) return this.#void(data.messageId);
    const message = this.#message(runId, data.messageId);
    if (data.final) {
      this.#settle(message, data.message);
      if (message.answer.node.data) this.onAnswer(message.answer.node.data);
    }
    if (message.final) return;
    this.#attempt(message, data.attempt);
    write(message.answer, data.offset, data.delta);
  }

  #thinking(runId, data) {
    const message = this.#message(runId, data.messageId);
    if (message.final) return;
    this.#attempt(message, data.attempt);
    this.#think(message, data.offset, data.delta);
  }

  /** What was streamed of a message is void. The next attempt may have another id, so nothing of this one stays. */
  #void(messageId) {
    const message = this.messages.get(messageId);
    if (!message || message.final) return;
    message.article.remove();
    this.messages.delete(messageId);
  }

  /** Another attempt at the same message begins with nothing. */
  #attempt(message, attempt) {
    message.attempt ??= attempt;
    if (attempt === message.attempt) return;
    message.attempt = attempt;
    write(message.answer, 0, "");
    write(message.thinking, 0, "");
    message.article.querySelector(".thinking").hidden = true;
  }

  #think(message, offset, text) {
    if (!text) return;
    write(message.thinking, offset, text);
    message.article.querySelector(".thinking").hidden = false;
  }

  #tool(runId, data) {
    const card = this.#card(runId, data.toolCallId, data.name, data.args);
    if (data.phase === "update") card.showOutput(data.partialResult);
    if (data.phase === "result") card.showResult(textOf(data.result?.content), data.isError, data.meta);
  }

  #card(runId, callId, name, args) {
    let card = this.tools.get(callId);
    if (!card) {
      card = new ToolCard(name, this.words);
      this.tools.set(callId, card);
      this.#place(runId, card.element);
    }
    if (args) card.showArguments(args);
    return card;
  }

  /** A message of the transcript, in its wire form. */
  #stored(message) {
    const { role, runId, messageId, content } = message;
    if (runId) this.#run(runId).told = true;
    if (role === "user") {
      const article = copyOf("user-message");
      article.querySelector(".text").textContent = textOf(content);
      if (runId) this.#run(runId).asked = true;
      this.#place(runId, article);
    } else if (role === "assistant") {
      this.#settle(this.#message(runId, messageId), message);
      for (const block of blocks(content)) if (block.type === "toolCall") this.#card(runId, block.id, block.name, block.arguments);
      if (isUnfinished(message)) this.#unfinished(runId, message.stopReason);
    } else if (role === "toolResult") {
      const refused = message.details?.code === "tool_not_allowed";
      const card = this.#card(runId, message.toolCallId, message.toolName, null);
      card.showResult(textOf(content), message.isError, refused ? { verdict: "refused", layer: message.details.layer } : null);
    }
  }

  /** The words that the end of the run had when it was live, as far as they are stored. */
  #unfinished(runId, reason) {
    const { words } = this;
    const stopped = STOPPED.includes(reason);
    const note = runId ? this.#run(runId).note : copyOf("run-note");
    if (!runId) this.root.append(note);
    note.textContent = stopped ? words.aborted : fill(words.failed, words[wordFor(reason)] ?? words.failedOtherwise);
    note.classList.toggle("bad", !stopped);
  }

  #message(runId, messageId) {
    let message = this.messages.get(messageId);
    if (!message) {
      const article = copyOf("assistant-message");
      article.classList.add("streaming");
      message = { article, attempt: 1, final: false, answer: textIn(article, ".answer"), thinking: textIn(article, ".thinking .text") };
      this.messages.set(messageId, message);
      this.#place(runId, article);
    }
    return message;
  }

  #settle(message, { content }) {
    message.final = true;
    message.article.classList.remove("streaming");
    write(message.answer, 0, textOf(content));
    write(message.thinking, 0, "");
    this.#think(message, 0, blocks(content).map((block) => block.thinking ?? "").join(""));
    message.article.hidden = !message.answer.node.data && !message.thinking.node.data;
  }

  #run(runId) {
    let run = this.runs.get(runId);
    if (!run) {
      run = { box: document.createElement("section"), note: copyOf("run-note"), asked: false, told: false };
      run.box.className = "run";
      run.box.append(run.note);
      this.runs.set(runId, run);
      this.root.append(run.box);
    }
    return run;
  }

  /** What belongs to a run stands with it, above its note, even when another message was queued meanwhile. */
  #place(runId, element) {
    if (runId) this.#run(runId).note.before(element);
    else this.root.append(element);
  }

  #begin(runId, note) {
    const run = this.#run(runId);
    run.box.querySelector(".choice")?.remove(); // another window has sent what was offered here
    if (!this.unfinished.has(runId)) {
      this.unfinished.add(runId);
      run.note.textContent = note;
      this.onRuns(this.unfinished.size);
    }
    return run;
  }

  #note(runId, text) {
    this.#begin(runId, text).note.textContent = text;
  }

  #finish(runId, text, bad = false) {
    const { box, note } = this.#run(runId);
    note.textContent = text;
    note.classList.toggle("bad", bad);
    box.querySelectorAll(".streaming").forEach((article) => article.classList.remove("streaming"));
    this.#settleTools(box);
    this.#ended(runId);
  }

  #settleTools(box) {
    for (const card of this.tools.values()) if (box.contains(card.element)) card.settle();
  }

  #ended(runId) {
    if (this.unfinished.delete(runId)) this.onRuns(this.unfinished.size);
  }
}

/** A model's whole answer names its model and usage. `stopReason` alone does not tell: "stop" is also the command's. */
function isUnfinished({ stopReason, model, usage }) {
  return Boolean(stopReason) && stopReason !== "injected" && !model && !usage;
}

/** rate_limit → failedRateLimit, its name among the words. */
function wordFor(reason) {
  return "failed" + reason.split("_").map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
}
