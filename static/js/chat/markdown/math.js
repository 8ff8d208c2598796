/**
 * Converts TeX formulas to MathML, which browsers render natively.
 *
 * Supports a useful subset of TeX; a formula with unknown commands is shown as source. Builds only elements and text nodes, so a
 * formula cannot inject anything else.
 */

import { ACCENTS, FENCES, FUNCTIONS, INTEGRALS, LARGE, LETTERS, LIMITS, OPERATORS, SPACES, VARIANTS } from "./math_symbols.js";

const TOKEN = /\\(?:[A-Za-z]+|[^])|\s+|\d+(?:\.\d+)?|[^]/gu;
const MAX_CHARACTERS = 4000;
const DELIMITERS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];
const IGNORED_COMMANDS = new Set([
  "displaystyle", "textstyle", "limits", "nolimits", "nonumber",
  "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr",
]);
const TEXT_COMMANDS = new Set(["text", "mathrm", "textrm", "textbf", "textit", "operatorname", "mathsf", "mathtt", "mbox"]);

/** Replace the TeX source in an element of class `math` with the formula, if it is supported. */
export function renderMath(element) {
  const source = element.textContent.trim();
  try {
    const [open, close] = DELIMITERS.find(([start, end]) => source.startsWith(start) && source.endsWith(end)) ?? ["", ""];
    const inner = source.slice(open.length, source.length - close.length);
    if (!inner.trim() || source.length > MAX_CHARACTERS) throw new Error("not a formula");
    const display = element.tagName === "DIV" || open === "$$" || open === "\\[";
    const formula = createNode("math", new Parser(inner, display).parse());
    formula.setAttribute("alttext", inner);
    if (display) formula.setAttribute("display", "block");
    element.replaceChildren(formula);
  } catch {
    element.classList.add("source");
  }
}

class Parser {
  constructor(source, display) {
    this.tokens = source.match(TOKEN) ?? [];
    this.position = 0;
    this.display = display;
  }

  parse() {
    const rows = this.#parseRows(() => this.position >= this.tokens.length);
    return rows.length === 1 && rows[0].length === 1 ? [rows[0][0]] : [createTable(rows)];
  }

  #peek() {
    while (/^\s+$/.test(this.tokens[this.position] ?? "")) this.position++;
    return this.tokens[this.position];
  }

  #next() {
    this.#peek();
    if (this.position >= this.tokens.length) throw new Error("unexpected end of formula");
    return this.tokens[this.position++];
  }

  /** Parse cells separated by & and rows separated by \\ until `isEnd()`. */
  #parseRows(isEnd) {
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(createNode("mrow", this.#parseUntil(() => isEnd() || ["&", "\\\\"].includes(this.#peek()))));
      if (isEnd()) return rows;
      if (this.#next() === "\\\\") rows.push([]);
      this.#peek();
    }
  }

  #parseUntil(isEnd) {
    const parts = [];
    while (this.#peek() !== undefined && !isEnd()) parts.push(this.#parseScripted());
    if (this.#peek() === undefined && !isEnd()) throw new Error("unclosed group");
    return parts;
  }

  /** Parse one item with its superscript and subscript. */
  #parseScripted() {
    const limits = this.#takesLimits(this.#peek());
    const base = this.#parseItem();
    let below = null;
    let above = null;
    for (let script = this.#peek(); script === "^" || script === "_" || script === "'"; script = this.#peek()) {
      this.position++;
      if (script === "_") below = this.#parseItem();
      else if (script === "^") above = this.#parseItem();
      else above = createNode("mo", ["′"]);
    }
    if (!below && !above) return base;
    const [both, under, over] = limits ? ["munderover", "munder", "mover"] : ["msubsup", "msub", "msup"];
    if (below && above) return createNode(both, [base, below, above]);
    return below ? createNode(under, [base, below]) : createNode(over, [base, above]);
  }

  #takesLimits(token) {
    const name = token?.slice(1);
    return token?.startsWith("\\") && ((this.display && Object.hasOwn(LARGE, name)) || LIMITS.has(name) || name === "overbrace");
  }

  #parseItem() {
    const token = this.#next();
    if (token === "{") return this.#parseGroup("}");
    if (token.startsWith("\\")) return this.#parseCommand(token.slice(1));
    if (/^\d/.test(token)) return createNode("mn", [token]);
    if (/^\p{L}$/u.test(token)) return createNode("mi", [token]);
    if (["}", "&", "^", "_", "#", "%"].includes(token)) throw new Error(`unexpected ${token}`);
    return token === "~" ? createNode("mtext", ["\u00a0"]) : createOperator(token === "-" ? "−" : token);
  }

  #parseGroup(end) {
    const parts = this.#parseUntil(() => this.#peek() === end);
    this.position++;
    return parts.length === 1 ? parts[0] : createNode("mrow", parts);
  }

  #parseCommand(name) {
    if (Object.hasOwn(LETTERS, name)) return createNode("mi", [LETTERS[name]]);
    if (Object.hasOwn(OPERATORS, name)) return createOperator(OPERATORS[name]);
    if (Object.hasOwn(INTEGRALS, name)) return createNode("mo", [INTEGRALS[name]]);
    if (Object.hasOwn(LARGE, name)) return createNode("mo", [LARGE[name]]);
    if (FUNCTIONS.has(name) || LIMITS.has(name)) return createNode("mi", [name]);
    if (Object.hasOwn(SPACES, name)) return createSpace(SPACES[name]);
    if (Object.hasOwn(ACCENTS, name)) return this.#parseAccent(ACCENTS[name]);
    if (Object.hasOwn(VARIANTS, name)) return this.#parseVariant(VARIANTS[name]);
    if (TEXT_COMMANDS.has(name)) return createNode(name === "operatorname" ? "mi" : "mtext", [this.#readRaw()]);
    if (IGNORED_COMMANDS.has(name)) return this.#peek() === undefined ? createNode("mrow", []) : this.#parseItem();
    if (["mathbf", "boldsymbol", "bm", "mathit"].includes(name)) return this.#parseItem();
    if (/^[dt]?frac$/.test(name)) return createNode("mfrac", [this.#parseItem(), this.#parseItem()]);
    if (name === "binom") return this.#parseBinomial();
    if (name === "sqrt") return this.#parseRoot();
    if (name === "left") return this.#parseFenced();
    if (name === "begin") return this.#parseEnvironment();
    if ("{}$%&#_|".includes(name)) return createOperator(name === "|" ? "‖" : name);
    throw new Error(`unknown: ${name}`);
  }

  #parseAccent(accent) {
    const over = createNode("mover", [this.#parseItem(), createNode("mo", [accent])]);
    over.setAttribute("accent", "true");
    return over;
  }

  #parseVariant(letters) {
    return createNode("mi", [[...this.#readRaw()].map((letter) => letters[letter] ?? letter).join("")]);
  }

  #parseBinomial() {
    const both = createNode("mfrac", [this.#parseItem(), this.#parseItem()]);
    both.setAttribute("linethickness", "0");
    return createFence("(", [both], ")");
  }

  #parseRoot() {
    if (this.#peek() !== "[") return createNode("msqrt", [this.#parseItem()]);
    this.position++;
    const index = this.#parseGroup("]");
    return createNode("mroot", [this.#parseItem(), index]);
  }

  #parseFenced() {
    const open = this.#parseDelimiter();
    const inside = this.#parseUntil(() => this.#peek() === "\\right");
    this.position++;
    return createFence(open, inside, this.#parseDelimiter());
  }

  #parseDelimiter() {
    const token = this.#next();
    if (token === ".") return "";
    return token.startsWith("\\") ? (OPERATORS[token.slice(1)] ?? (token === "\\|" ? "‖" : token.slice(1))) : token;
  }

  #parseEnvironment() {
    const name = this.#readRaw();
    if (name === "array" && this.#peek() === "{") this.#readRaw(); // column alignment, ignored
    const rows = this.#parseRows(() => this.#peek() === "\\end");
    this.position++;
    if (this.#readRaw() !== name) throw new Error("mismatched end");
    if (!/^(?:p|b|B|v|V|small)?matrix$|^(?:cases|aligned|align\*?|gathered|array|equation\*?|split)$/.test(name)) {
      throw new Error(name);
    }
    const full = rows.filter((row, index) => index < rows.length - 1 || row.some((cell) => cell.hasChildNodes()));
    const element = createTable(full, /align|split/.test(name) ? "right left" : name === "cases" ? "left" : "");
    const [open, close] = FENCES[name] ?? "  ";
    return open === " " ? element : createFence(open, [element], close.trim());
  }

  /** Read the content of braces without parsing it. */
  #readRaw() {
    if (this.#next() !== "{") return this.tokens[this.position - 1];
    const start = this.position;
    while (this.position < this.tokens.length && this.tokens[this.position] !== "}") this.position++;
    return this.tokens.slice(start, this.position++).join("");
  }
}

/** Surround `inside` with delimiters of the same height. */
function createFence(open, inside, close) {
  const side = (text) => (text ? [createNode("mo", [text])] : []);
  return createNode("mrow", [...side(open), ...inside, ...side(close)]);
}

/** An inline operator: brackets only stretch with \\left and \\right. */
function createOperator(text) {
  const element = createNode("mo", [text]);
  if ("()[]{}|‖⌊⌋⌈⌉⟨⟩∣".includes(text)) element.setAttribute("stretchy", "false");
  return element;
}

function createTable(rows, columns = "") {
  const element = createNode("mtable", rows.map((row) => createNode("mtr", row.map((cell) => createNode("mtd", [cell])))));
  const sides = columns.split(" ");
  if (columns) {
    for (const row of element.children) {
      [...row.children].forEach((cell, column) => cell.classList.add(sides[column % sides.length]));
    }
  }
  return element;
}

function createSpace(width) {
  const element = createNode("mspace", []);
  element.setAttribute("width", width);
  return element;
}

function createNode(name, children) {
  const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  element.append(...children);
  return element;
}
