/** One message of the conversation, of a person or of the agent, with its foot: when, by which model, at what price, and what one can do. */

import { Answer } from "../markdown/streamed_text.js";
import { attached, attachmentsOf } from "./message_files.js";
import { blocksOf, copyOf, put, textOf } from "../../shared/elements.js";
import { count, duration, longTime, money, shortCount, shortTime } from "../../shared/formats.js";
import { Thinking } from "./thinking.js";
import { fill } from "../../shared/texts.js";

const LONG = { characters: 2500, lines: 25 }; // a longer message of a person is folded
const CODE = /^ {0,3}(```|~~~)/m;

/** What both have. `page` is {words, renderer, username, address(messageId)}. */
class Message {
  constructor(template, page) {
    this.page = page;
    this.element = copyOf(template);
    this.part = (selector) => this.element.querySelector(selector);
    this.messageId = null;
    this.facts = {};
  }

  /** What is known about it; told piece by piece. */
  know({ messageId, timestamp, model, usage, durationMs, position }) {
    const news = Object.entries({ timestamp, model, usage, durationMs, position }).filter(([, value]) => value !== undefined && value !== null);
    Object.assign(this.facts, Object.fromEntries(news));
    if (messageId) {
      this.messageId = messageId;
      this.element.dataset.messageId = messageId;
    }
    this.#showFacts();
  }

  #showFacts() {
    const { timestamp, model, usage, durationMs } = this.facts;
    const { words, address } = this.page;
    const when = this.part(".when");
    if (timestamp) {
      const time = when.querySelector("time");
      time.textContent = shortTime(timestamp);
      time.dateTime = new Date(timestamp).toISOString();
      when.title = longTime(timestamp);
    }
    if (this.messageId) when.href = address(this.messageId);
    when.hidden = !timestamp;
    const line = [model, tokens(usage, words), price(usage), durationMs && duration(durationMs, words)];
    put(this.part(".facts"), line.filter(Boolean).join(" · "));
  }
}

export class UserMessage extends Message {
  constructor(page) {
    super("user-message", page);
    this.text = "";
    this.attachments = [];
    this.author = ""; // their name, if it is somebody else's
  }

  know(message) {
    super.know(message);
    if (message.hook) this.#by(`Webhook ${message.hook}`); // under their account, but not their words
    else if (message.sender && message.sender !== this.page.username) this.#by(message.sender);
  }

  /** The heading that only screen readers have of one's own messages is shown. */
  #by(name) {
    const heading = this.part("h2");
    this.author = heading.textContent = name;
    heading.classList.replace("hidden", "author");
    this.element.classList.add("of-other");
  }

  /** Shown as it was typed, except that code looks like code. `attachments` are those being sent: [{id, name, mimeType, size}]. */
  show({ content, attachments = [], truncated = false }) {
    const { words } = this.page;
    this.text = textOf(content);
    this.truncated = truncated; // of a long one that waits the history tells only the beginning
    const stored = blocksOf(content).filter(({ attachmentId }) => attachmentId);
    this.attachments = [...stored.map((block) => ({ ...block, id: block.attachmentId })), ...attachments];
    const box = this.part(".text");
    this.element.classList.toggle("markdown", CODE.test(this.text));
    if (CODE.test(this.text)) (this.answer ??= new Answer(box, this.page)).settle(this.text, htmlOf(content));
    else box.textContent = this.text;
    box.hidden = !this.text;
    this.#fold(this.text.length > LONG.characters || this.text.split("\n", LONG.lines + 1).length > LONG.lines);
    this.part(".files").replaceChildren(...attachmentsOf(content, words), ...attachments.map((file) => attached(file, words)));
  }

  #fold(isLong) {
    const more = this.part(".more");
    this.element.classList.toggle("folded", isLong);
    more.hidden = !isLong;
    more.onclick = () => {
      const folded = this.element.classList.toggle("folded");
      more.textContent = folded ? this.page.words.showMore : this.page.words.showLess;
      more.setAttribute("aria-expanded", String(!folded));
    };
  }
}

export class AgentMessage extends Message {
  constructor(page) {
    super("assistant-message", page);
    this.answer = new Answer(this.part(".answer"), page);
    this.thinking = new Thinking(this.part(".thinking"), page.words);
    this.attempt = 1;
    this.final = false;
    this.element.classList.add("streaming");
  }

  get text() {
    return this.answer.text;
  }

  /** Another attempt at the same message begins with nothing. */
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

  /** It is whole: as stored in the transcript. */
  settle(message) {
    const { content } = message;
    const thoughts = blocksOf(content).filter(({ thinking }) => thinking);
    const took = thoughts.reduce((sum, { durationMs }) => sum + (durationMs ?? 0), 0);
    this.final = true;
    this.element.classList.remove("streaming");
    this.answer.settle(textOf(content), htmlOf(content));
    this.thinking.settle(thoughts.map(({ thinking }) => thinking).join(""), took || null);
    this.part(".files").replaceChildren(...attachmentsOf(content, this.page.words));
    this.know(message);
    this.#hideIfEmpty(blocksOf(content).some(({ attachmentId }) => attachmentId));
  }

  /** Nothing more will come, and it never was whole. */
  breakOff(ts) {
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

/** The HTML of a content's text if the server sent it, else null. */
function htmlOf(content) {
  const texts = blocksOf(content).filter(({ type }) => type === "text");
  return texts.length && texts.every(({ html }) => typeof html === "string") ? texts.map(({ html }) => html).join("") : null;
}

function tokens(usage, words) {
  if (!usage?.input && !usage?.output) return "";
  return fill(words.tokens, shortCount(usage.input ?? 0), count(usage.output ?? 0));
}

function price(usage) {
  const usd = usage?.costUsd ?? (usage?.costMicroUsd ?? 0) / 1e6;
  return usd ? money(usd) : "";
}
