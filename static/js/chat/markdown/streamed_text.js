/**
 * The text of a message, streamed or complete.
 *
 * The server renders each closed block once; the open block is plain text, which cannot inject markup. When a block closes, its
 * HTML replaces the text in place, so nothing else moves.
 */

import { nextFrame } from "../../shared/timing.js";
import { BlockReader } from "./block_reader.js";
import { createCodeFrame, decorate } from "./decorations.js";

const REFERENCES = /^ {0,3}\[[^\]\n]+\]:\s/m; // link definitions: one at the end of a text can change links at its beginning
const BULLET = /^(\s*)[-*+] /gm;

export class StreamedText {
  constructor(root, { renderer, texts }) {
    Object.assign(this, { root, renderer, texts });
    this.paint = this.paint.bind(this);
    this.#reset();
  }

  #reset() {
    this.text = "";
    this.length = 0; // in characters as the server counts them: an emoji is one, not two
    this.reader = new BlockReader();
    this.closed = []; // closed blocks that are not displayed yet
    this.openElement = null; // the element of the open block
    this.version = {}; // replaced on every reset, so that results of earlier requests are ignored
    this.root.replaceChildren();
  }

  /** Write `text` at `offset`. Appending, by far the most common case, only processes the new text. */
  write(offset, text) {
    if (offset !== this.length) {
      const prefix = [...this.text].slice(0, offset).join("");
      this.#reset();
      this.#add(prefix);
    }
    this.#add(text);
    nextFrame(this.paint);
  }

  /** Set the complete text, with its HTML if it comes from the history. */
  settle(text, html = null) {
    if (html !== null) return this.#showRendered(text, html);
    const asOneBlock = REFERENCES.test(text);
    if (text !== this.text || asOneBlock) {
      this.#reset();
      this.#add(text, asOneBlock);
    }
    this.closed.push(...this.reader.finish());
    this.paint();
  }

  #showRendered(text, html) {
    this.#reset();
    this.text = text;
    this.root.innerHTML = html;
    decorate(this.root, this.texts);
  }

  #add(text, asOneBlock = false) {
    this.text += text;
    this.length += [...text].length;
    if (asOneBlock) this.closed.push(text);
    else this.closed.push(...this.reader.feed(text));
  }

  /** Update the page. Does not read sizes, which would force a layout. */
  paint() {
    for (const block of this.closed.splice(0)) this.#closeBlock(block);
    const open = this.reader.open;
    if (!open) return this.#removeOpen();
    if (this.openElement?.dataset.kind !== open.kind) this.#removeOpen();
    this.openElement ??= this.#showOpen(open);
    if (open.kind === "code") return this.#growCode(open);
    const shown = formatPlain(open);
    updateText(this.openElement.firstChild, shown);
  }

  #removeOpen() {
    this.openElement?.remove();
    this.openElement = null;
  }

  #showOpen({ kind, text, info }) {
    const element = kind === "code" ? createCodeFrame(info, this.texts) : document.createElement("div");
    element.classList.add("plain");
    element.dataset.kind = kind;
    if (kind === "heading") element.dataset.level = info;
    if (kind !== "code") element.append(document.createTextNode(formatPlain({ kind, text })));
    this.root.append(element);
    return element;
  }

  /** Long code grows in chunks, so that adding a line does not repeat the layout of all lines before it. */
  #growCode({ text, info }) {
    const code = this.openElement.querySelector("code");
    const progress = (this.openElement.shown ??= { length: 0, lines: 0 });
    const label = this.openElement.querySelector(".language");
    if (label.textContent !== info) label.textContent = info;
    if (text.length < progress.length) code.replaceChildren(), Object.assign(progress, { length: 0, lines: 0 });
    const added = text.slice(progress.length);
    if (!added) return;
    if (!code.lastChild || (progress.lines > 100 && text[progress.length - 1] === "\n")) {
      code.append(document.createElement("span"));
      code.lastChild.append(document.createTextNode(""));
      progress.lines = 0;
    }
    code.lastChild.firstChild.appendData(added);
    progress.length = text.length;
    progress.lines += added.split("\n").length - 1;
  }

  async #closeBlock(block) {
    const reader = new BlockReader();
    reader.feed(block.trimEnd());
    const open = reader.open;
    const isSameKind = this.openElement && this.openElement.dataset.kind === open.kind;
    if (!isSameKind) this.#removeOpen();
    const element = this.openElement ?? this.#showOpen(open);
    this.openElement = null;
    if (open.kind !== "code") updateText(element.firstChild, formatPlain(open));
    else this.#finishCode(element, open);
    const { version } = this;
    const html = await this.renderer.render(block);
    if (html === null || version !== this.version) return;
    nextFrame(() => {
      if (version === this.version) element.replaceWith(renderFragment(html, this.texts));
    });
  }

  #finishCode(element, { text }) {
    const code = element.querySelector("code");
    code.textContent = text.replace(/\n[`~]{3,}\s*$/, "").replace(/^[`~]{3,}\s*$/, "");
  }
}

/** Plain text that looks similar to the rendered block: no trailing blank lines, bullets for list markers. */
function formatPlain({ kind, text }) {
  const shown = text.trimEnd();
  if (kind === "list") return shown.replace(BULLET, "$1• ");
  return kind === "quote" ? shown.replace(/^> ?/gm, "") : shown;
}

/** Append if possible, which keeps the user's selection. */
function updateText(node, text) {
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

function renderFragment(html, texts) {
  const template = document.createElement("template");
  template.innerHTML = html;
  decorate(template.content, texts);
  return template.content;
}
