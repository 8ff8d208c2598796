/**
 * A growing markdown text, cut into blocks that will not change any more and the one that is still open. Pure.
 *
 * A block closes at a blank line outside a fence, at a closing fence, and where another kind of block begins. A list closes only
 * at a blank line that is followed by something else than an item or an indented line.
 */

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const FENCE_IN_ITEM = /^\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(`{3,}|~{3,})/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const INTERRUPTING_ITEM = /^ {0,3}(?:[-*+]|1[.)])\s+\S/; // what may follow a paragraph without a blank line
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const MATHS = { $$: /\$\$\s*$/, "\\[": /\\\]\s*$/ }; // how a line begins, and how the last one ends

export class BlockReader {
  constructor() {
    this.block = ""; // whole lines of the open block
    this.line = ""; // the line that has not ended yet
    this.kind = null;
    this.fence = null; // what ends the code or the maths we are in
    this.blank = false; // the list has just had a blank line
  }

  /** The open block as it may be shown: {kind: text|list|quote|table|heading|code|maths, text, info}. Null when there is none. */
  get open() {
    const text = this.block + this.line;
    if (!text.trim()) return null;
    const kind = this.kind ?? kindOf(text);
    if (kind === "heading") return { kind, text: text.replace(HEADING, ""), info: HEADING.exec(text)[1].length };
    if (kind !== "code") return { kind, text, info: "" };
    const [first, ...code] = text.split("\n");
    return { kind, text: code.join("\n"), info: (FENCE.exec(first)?.[3] ?? "").trim().split(/\s/)[0] };
  }

  /** Add text; returns the blocks that it closed, in order. */
  feed(text) {
    const closed = [];
    const lines = (this.line + text).replaceAll("\r\n", "\n").split("\n");
    this.line = lines.pop();
    for (const line of lines) this.#take(line, closed);
    // The first letter after a list's blank line tells that it is over; its line may take a while.
    if (this.blank && !this.fence && /^[^\s\d*+-]/.test(this.line)) this.#close(closed);
    return closed;
  }

  /** The text has ended: so has the open block. */
  finish() {
    const closed = this.line ? this.feed("\n") : [];
    this.#close(closed);
    return closed;
  }

  #take(line, closed) {
    if (this.fence) return this.#inside(line, closed);
    if (!line.trim()) return this.#empty(line, closed);
    if (this.kind === "list") {
      if (this.#continuesList(line)) return this.#add(line);
      this.#close(closed);
    }
    const kind = kindOf(line);
    if (this.kind && (kind === "code" || kind === "heading" || kind === "maths" || (kind === "list" && INTERRUPTING_ITEM.test(line)))) {
      this.#close(closed);
    }
    this.kind ??= kind;
    this.#add(line);
    if (this.kind === "code") this.fence = endOfFence(FENCE.exec(line)[2]);
    if (this.kind === "maths") this.fence = MATHS[line.trim().slice(0, 2)];
    if (this.kind === "heading") this.#close(closed);
    if (this.kind === "list") this.#fenceInItem(line);
  }

  #inside(line, closed) {
    if (this.kind === "maths" && !line.trim()) return this.#close(closed); // it was none
    this.block += `${line}\n`;
    if (!this.fence.test(line)) return;
    this.fence = null;
    if (this.kind !== "list") this.#close(closed);
  }

  #empty(line, closed) {
    if (this.kind !== "list") return this.#close(closed);
    this.block += `${line}\n`;
    this.blank = true;
  }

  /** Without a blank line before it any line goes on, except one that begins something of its own. */
  #continuesList(line) {
    if (/^(?: {2}|\t)/.test(line) || ITEM.test(line)) return true;
    return !this.blank && kindOf(line) === "text";
  }

  #add(line) {
    this.blank = false;
    this.block += `${line}\n`;
    if (this.kind === "list" && this.block !== `${line}\n`) this.#fenceInItem(line);
  }

  #fenceInItem(line) {
    const mark = FENCE_IN_ITEM.exec(line)?.[1];
    if (mark) this.fence = endOfFence(mark);
  }

  #close(closed) {
    if (this.block.trim()) closed.push(this.block);
    this.block = "";
    this.kind = this.fence = null;
    this.blank = false;
  }
}

function kindOf(line) {
  if (FENCE.test(line.split("\n", 1)[0])) return "code";
  if (HEADING.test(line)) return "heading";
  if (ITEM.test(line)) return "list";
  const start = line.trimStart();
  if (start.startsWith(">")) return "quote";
  if (start.startsWith("|")) return "table";
  const maths = MATHS[start.slice(0, 2)];
  return maths && !maths.test(start.slice(2)) ? "maths" : "text";
}

function endOfFence(mark) {
  return new RegExp(`^\\s*${mark[0]}{${mark.length},}\\s*$`);
}
