/**
 * Splits a growing markdown text into closed blocks, which no longer change, and the open one. Has no side effects.
 *
 * A block closes at a blank line outside a fence, at a closing fence, and where a block of another kind begins. A list closes only
 * at a blank line that is not followed by an item or an indented line.
 */

const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$/;
const FENCE_IN_ITEM = /^\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(`{3,}|~{3,})/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)/;
const INTERRUPTING_ITEM = /^ {0,3}(?:[-*+]|1[.)])\s+\S/; // items that can follow a paragraph without a blank line
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]|$)/;
const MATH = { $$: /\$\$\s*$/, "\\[": /\\\]\s*$/ }; // start of the first line → end of the last line

export class BlockReader {
  constructor() {
    this.block = ""; // complete lines of the open block
    this.line = ""; // the incomplete last line
    this.kind = null;
    this.fence = null; // what ends the current code or math block
    this.blank = false; // the list's last line was blank
  }

  /** The open block to display: {kind: text|list|quote|table|heading|code|maths, text, info}, or null. */
  get open() {
    const text = this.block + this.line;
    if (!text.trim()) return null;
    const kind = this.kind ?? kindOf(text);
    if (kind === "heading") return { kind, text: text.replace(HEADING, ""), info: HEADING.exec(text)[1].length };
    if (kind !== "code") return { kind, text, info: "" };
    const [first, ...code] = text.split("\n");
    return { kind, text: code.join("\n"), info: (FENCE.exec(first)?.[3] ?? "").trim().split(/\s/)[0] };
  }

  /** Add text and return the blocks it closed, in order. */
  feed(text) {
    const closed = [];
    const lines = (this.line + text).replaceAll("\r\n", "\n").split("\n");
    this.line = lines.pop();
    for (const line of lines) this.#addLine(line, closed);
    // The first letter after a list's blank line shows that the list has ended; don't wait for the whole line.
    if (this.blank && !this.fence && /^[^\s\d*+-]/.test(this.line)) this.#close(closed);
    return closed;
  }

  /** Close the open block at the end of the text. */
  finish() {
    const closed = this.line ? this.feed("\n") : [];
    this.#close(closed);
    return closed;
  }

  #addLine(line, closed) {
    if (this.fence) return this.#addFenced(line, closed);
    if (!line.trim()) return this.#addBlank(line, closed);
    if (this.kind === "list") {
      if (this.#continuesList(line)) return this.#add(line);
      this.#close(closed);
    }
    const kind = kindOf(line);
    const interrupts = ["code", "heading", "maths"].includes(kind) || (kind === "list" && INTERRUPTING_ITEM.test(line));
    if (this.kind && interrupts) this.#close(closed);
    this.kind ??= kind;
    this.#add(line);
    if (this.kind === "code") this.fence = closingFence(FENCE.exec(line)[2]);
    if (this.kind === "maths") this.fence = MATH[line.trim().slice(0, 2)];
    if (this.kind === "heading") this.#close(closed);
    if (this.kind === "list") this.#fenceInItem(line);
  }

  #addFenced(line, closed) {
    if (this.kind === "maths" && !line.trim()) return this.#close(closed); // the block was not math
    this.block += `${line}\n`;
    if (!this.fence.test(line)) return;
    this.fence = null;
    if (this.kind !== "list") this.#close(closed);
  }

  #addBlank(line, closed) {
    if (this.kind !== "list") return this.#close(closed);
    this.block += `${line}\n`;
    this.blank = true;
  }

  /** Without a blank line before it, any line continues the list, unless it starts another kind of block. */
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
    const marker = FENCE_IN_ITEM.exec(line)?.[1];
    if (marker) this.fence = closingFence(marker);
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
  const mathEnd = MATH[start.slice(0, 2)];
  return mathEnd && !mathEnd.test(start.slice(2)) ? "maths" : "text";
}

function closingFence(marker) {
  return new RegExp(`^\\s*${marker[0]}{${marker.length},}\\s*$`);
}
