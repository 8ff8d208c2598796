/**
 * The text of a message while it grows and when it is whole.
 *
 * Closed blocks are rendered by the server, each once; the open one is plain text, which nothing can break out of. A block keeps
 * its element when it closes and its HTML takes the place of the text, so nothing moves but what looks different.
 */

import { BlockReader } from "./block_reader.js";
import { nextFrame } from "../../shared/timing.js";
import { codeFrame, dressUp } from "./decorations.js";

const REFERENCES = /^ {0,3}\[[^\]\n]+\]:\s/m; // a definition at the end of a text can change links at its beginning
const BULLET = /^(\s*)[-*+] /gm;

export class Answer {
  constructor(root, { renderer, words }) {
    Object.assign(this, { root, renderer, words });
    this.paint = this.paint.bind(this);
    this.#begin();
  }

  #begin() {
    this.text = "";
    this.length = 0; // in characters as the server counts them: an emoji is one, not two
    this.reader = new BlockReader();
    this.closed = []; // blocks that have closed and have no element yet
    this.last = null; // the element of the open block
    this.round = {}; // results that were asked for before the text began anew are void
    this.root.replaceChildren();
  }

  /** Put `text` at `offset`. Adding at the end, which is nearly always, costs no more than the addition. */
  write(offset, text) {
    if (offset !== this.length) {
      const kept = [...this.text].slice(0, offset).join("");
      this.#begin();
      this.#add(kept);
    }
    this.#add(text);
    nextFrame(this.paint);
  }

  /** The whole text is known, and its HTML if it comes from the history. */
  settle(text, html = null) {
    if (html !== null) return this.#rendered(text, html);
    const whole = REFERENCES.test(text);
    if (text !== this.text || whole) {
      this.#begin();
      this.#add(text, whole);
    }
    this.closed.push(...this.reader.finish());
    this.paint();
  }

  #rendered(text, html) {
    this.#begin();
    this.text = text;
    this.root.innerHTML = html;
    dressUp(this.root, this.words);
  }

  #add(text, whole = false) {
    this.text += text;
    this.length += [...text].length;
    if (whole) this.closed.push(text);
    else this.closed.push(...this.reader.feed(text));
  }

  /** Bring the page up to the text. Writes only: what it read would be laid out for nothing. */
  paint() {
    for (const block of this.closed.splice(0)) this.#close(block);
    const open = this.reader.open;
    if (!open) return this.#drop();
    if (this.last?.dataset.kind !== open.kind) this.#drop();
    this.last ??= this.#show(open);
    if (open.kind === "code") return this.#grow(open);
    const shown = shownAs(open);
    put(this.last.firstChild, shown);
  }

  #drop() {
    this.last?.remove();
    this.last = null;
  }

  #show({ kind, text, info }) {
    const element = kind === "code" ? codeFrame(info, this.words) : document.createElement("div");
    element.classList.add("plain");
    element.dataset.kind = kind;
    if (kind === "heading") element.dataset.level = info;
    if (kind !== "code") element.append(document.createTextNode(shownAs({ kind, text })));
    this.root.append(element);
    return element;
  }

  /** Long code grows in pieces, so that a line at its end does not lay out everything before it. */
  #grow({ text, info }) {
    const code = this.last.querySelector("code");
    const shown = (this.last.shown ??= { length: 0, lines: 0 });
    const label = this.last.querySelector(".language");
    if (label.textContent !== info) label.textContent = info;
    if (text.length < shown.length) code.replaceChildren(), Object.assign(shown, { length: 0, lines: 0 });
    const added = text.slice(shown.length);
    if (!added) return;
    if (!code.lastChild || (shown.lines > 100 && text[shown.length - 1] === "\n")) {
      code.append(document.createElement("span"));
      code.lastChild.append(document.createTextNode(""));
      shown.lines = 0;
    }
    code.lastChild.firstChild.appendData(added);
    shown.length = text.length;
    shown.lines += added.split("\n").length - 1;
  }

  async #close(block) {
    const reader = new BlockReader();
    reader.feed(block.trimEnd());
    const open = reader.open;
    const fits = this.last && this.last.dataset.kind === open.kind;
    if (!fits) this.#drop();
    const element = this.last ?? this.#show(open);
    this.last = null;
    if (open.kind !== "code") put(element.firstChild, shownAs(open));
    else this.#finishCode(element, open);
    const { round } = this;
    const html = await this.renderer.render(block);
    if (html === null || round !== this.round) return;
    nextFrame(() => {
      if (round === this.round) element.replaceWith(fragmentOf(html, this.words));
    });
  }

  #finishCode(element, { text }) {
    const code = element.querySelector("code");
    code.textContent = text.replace(/\n[`~]{3,}\s*$/, "").replace(/^[`~]{3,}\s*$/, "");
  }
}

/** Plain text that looks close to what it will be: no blank lines at its end, points for bullets. */
function shownAs({ kind, text }) {
  const shown = text.trimEnd();
  if (kind === "list") return shown.replace(BULLET, "$1• ");
  return kind === "quote" ? shown.replace(/^> ?/gm, "") : shown;
}

/** Added to where that is enough: what somebody has selected in it stays selected. */
function put(node, text) {
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

function fragmentOf(html, words) {
  const template = document.createElement("template");
  template.innerHTML = html;
  dressUp(template.content, words);
  return template.content;
}
