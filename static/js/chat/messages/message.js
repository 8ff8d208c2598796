/** A message of a user or the agent, with its footer: time, model, cost and actions. */

import { cloneTemplate, getBlocks, getText, setText } from "../../shared/elements.js";
import { formatCount, formatDuration, formatFullTime, formatMoney, formatShortCount, formatTime } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { StreamedText } from "../markdown/streamed_text.js";
import { renderFile, renderFiles } from "./message_files.js";
import { Thinking } from "./thinking.js";

const FOLD_LIMITS = { characters: 2500, lines: 25 }; // longer user messages are collapsed
const CODE_FENCE = /^ {0,3}(```|~~~)/m;

/** Base class. `page` is {texts, renderer, username, urlFor(messageId)}. */
class Message {
  constructor(template, page) {
    this.page = page;
    this.element = cloneTemplate(template);
    this.part = (selector) => this.element.querySelector(selector);
    this.messageId = null;
    this.facts = {};
  }

  /** Add known facts, such as the time, model and usage, to the footer. */
  update({ messageId, timestamp, model, usage, durationMs, position }) {
    const newFacts = Object.entries({ timestamp, model, usage, durationMs, position });
    Object.assign(this.facts, Object.fromEntries(newFacts.filter(([, value]) => value !== undefined && value !== null)));
    if (messageId) {
      this.messageId = messageId;
      this.element.dataset.messageId = messageId;
    }
    this.#showFacts();
  }

  #showFacts() {
    const { timestamp, model, usage, durationMs } = this.facts;
    const { texts, urlFor } = this.page;
    const link = this.part(".when");
    if (timestamp) {
      const time = link.querySelector("time");
      time.textContent = formatTime(timestamp);
      time.dateTime = new Date(timestamp).toISOString();
      link.title = formatFullTime(timestamp);
    }
    if (this.messageId) link.href = urlFor(this.messageId);
    link.hidden = !timestamp;
    const parts = [model, formatTokens(usage, texts), formatCost(usage), durationMs && formatDuration(durationMs, texts)];
    setText(this.part(".facts"), parts.filter(Boolean).join(" · "));
  }
}

export class UserMessage extends Message {
  constructor(page) {
    super("user-message", page);
    this.text = "";
    this.attachments = [];
    this.author = ""; // name of the author, unless it is the current user
  }

  update(message) {
    super.update(message);
    if (message.hook) this.#setAuthor(`Webhook ${message.hook}`); // sent under the user's account but not written by them
    else if (message.sender && message.sender !== this.page.username) this.#setAuthor(message.sender);
  }

  /** Show the heading, which is visually hidden for the user's own messages. */
  #setAuthor(name) {
    const heading = this.part("h2");
    this.author = heading.textContent = name;
    heading.classList.replace("hidden", "author");
    this.element.classList.add("of-other");
  }

  /** Show the text as typed, with code blocks rendered. `attachments` are those being sent: [{id, name, mimeType, size}]. */
  show({ content, attachments = [], truncated = false }) {
    const { texts } = this.page;
    this.text = getText(content);
    this.truncated = truncated; // the history has only the beginning of long queued messages
    const stored = getBlocks(content).filter(({ attachmentId }) => attachmentId);
    this.attachments = [...stored.map((block) => ({ ...block, id: block.attachmentId })), ...attachments];
    const box = this.part(".text");
    this.element.classList.toggle("markdown", CODE_FENCE.test(this.text));
    if (CODE_FENCE.test(this.text)) (this.answer ??= new StreamedText(box, this.page)).settle(this.text, getHtml(content));
    else box.textContent = this.text;
    box.hidden = !this.text;
    const { characters, lines } = FOLD_LIMITS;
    this.#fold(this.text.length > characters || this.text.split("\n", lines + 1).length > lines);
    this.part(".files").replaceChildren(...renderFiles(content, texts), ...attachments.map((file) => renderFile(file, texts)));
  }

  #fold(isLong) {
    const more = this.part(".more");
    this.element.classList.toggle("folded", isLong);
    more.hidden = !isLong;
    more.onclick = () => {
      const folded = this.element.classList.toggle("folded");
      more.textContent = folded ? this.page.texts.showMore : this.page.texts.showLess;
      more.setAttribute("aria-expanded", String(!folded));
    };
  }
}

export class AgentMessage extends Message {
  constructor(page) {
    super("assistant-message", page);
    this.answer = new StreamedText(this.part(".answer"), page);
    this.thinking = new Thinking(this.part(".thinking"), page.texts);
    this.attempt = 1;
    this.final = false;
    this.element.classList.add("streaming");
  }

  get text() {
    return this.answer.text;
  }

  /** A new attempt at the same message starts empty. */
  begin(attempt) {
    this.attempt ??= attempt;
    if (attempt === this.attempt) return;
    this.attempt = attempt;
    this.answer.write(0, "");
    this.thinking.clear();
  }

  write(offset, text, ts) {
    this.thinking.end(ts);
    this.answer.write(offset, text);
    if (text) this.element.classList.add("speaking");
  }

  /** The message is complete, as stored in the transcript. */
  settle(message) {
    const { content } = message;
    const thinkingBlocks = getBlocks(content).filter(({ thinking }) => thinking);
    const thinkingMs = thinkingBlocks.reduce((sum, { durationMs }) => sum + (durationMs ?? 0), 0);
    this.final = true;
    this.element.classList.remove("streaming");
    this.answer.settle(getText(content), getHtml(content));
    this.thinking.settle(thinkingBlocks.map(({ thinking }) => thinking).join(""), thinkingMs || null);
    this.part(".files").replaceChildren(...renderFiles(content, this.page.texts));
    this.update(message);
    this.#hideIfEmpty(getBlocks(content).some(({ attachmentId }) => attachmentId));
  }

  /** The run ended before the message was complete. */
  interrupt(ts) {
    if (this.final) return;
    this.thinking.end(ts);
    this.element.classList.remove("streaming");
    this.answer.settle(this.text);
    this.#hideIfEmpty(false);
  }

  #hideIfEmpty(hasFiles) {
    this.element.hidden = !this.text && !this.thinking.text && !hasFiles;
    this.element.classList.toggle("wordless", !this.text);
  }
}

/** The HTML of the content if the server sent it, else null. */
function getHtml(content) {
  const blocks = getBlocks(content).filter(({ type }) => type === "text");
  return blocks.length && blocks.every(({ html }) => typeof html === "string") ? blocks.map(({ html }) => html).join("") : null;
}

function formatTokens(usage, texts) {
  if (!usage?.input && !usage?.output) return "";
  return fill(texts.tokens, formatShortCount(usage.input ?? 0), formatCount(usage.output ?? 0));
}

function formatCost(usage) {
  const usd = usage?.costUsd ?? (usage?.costMicroUsd ?? 0) / 1e6;
  return usd ? formatMoney(usd) : "";
}
