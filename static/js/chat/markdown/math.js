/**
 * Converts TeX formulas to MathML, which browsers render natively.
 *
 * Supports a useful subset of TeX; a formula with unknown commands is shown as source. Builds only elements and text nodes, so a
 * formula cannot inject anything else.
 */

import { ACCENTS, FENCES, FUNCTIONS, INTEGRALS, LARGE, LETTERS, LIMITS, OPERATORS, SPACES, VARIANTS } from "./math_symbols.js";

const TOKEN = /\\(?:[A-Za-z]+|[^])|\s+|\d+(?:\.\d+)?|[^]/gu;
const MAX_CHARACTERS = 4000; // characters
const DELIMITERS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];
const SIZES = new Set(["displaystyle", "textstyle", "limits", "nolimits", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "nonumber"]);
const TEXTS = new Set(["text", "mathrm", "textrm", "textbf", "textit", "operatorname", "mathsf", "mathtt", "mbox"]);

/** Replace the source in an element of class `math` by the formula, if supported. */
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
    this.at = 0;
    this.display = display;
  }

  parse() {
    const rows = this.#rows(() => this.at >= this.tokens.length);
    return rows.length === 1 && rows[0].length === 1 ? [rows[0][0]] : [table(rows)];
  }

  #peek() {
    while (/^\s+$/.test(this.tokens[this.at] ?? "")) this.at++;
    return this.tokens[this.at];
  }

  #next() {
    this.#peek();
    if (this.at >= this.tokens.length) throw new Error("unexpected end of formula");
    return this.tokens[this.at++];
  }

  /** Parse cells separated by & and rows separated by \\ until `isEnd()`. */
  #rows(isEnd) {
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(createNode("mrow", this.#until(() => isEnd() || ["&", "\\\\"].includes(this.#peek()))));
      if (isEnd()) return rows;
      if (this.#next() === "\\\\") rows.push([]);
      this.#peek();
    }
  }

  #until(isEnd) {
    const parts = [];
    while (this.#peek() !== undefined && !isEnd()) parts.push(this.#scripted());
    if (this.#peek() === undefined && !isEnd()) throw new Error("unclosed group");
    return parts;
  }

  /** Parse one item with its superscript and subscript. */
  #scripted() {
    const limits = this.#takesLimits(this.#peek());
    const base = this.#one();
    let below = null;
    let above = null;
    for (let script = this.#peek(); script === "^" || script === "_" || script === "'"; script = this.#peek()) {
      this.at++;
      if (script === "_") below = this.#one();
      else if (script === "^") above = this.#one();
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

  #one() {
    const token = this.#next();
    if (token === "{") return this.#group("}");
    if (token.startsWith("\\")) return this.#command(token.slice(1));
    if (/^\d/.test(token)) return createNode("mn", [token]);
    if (/^\p{L}$/u.test(token)) return createNode("mi", [token]);
    if (["}", "&", "^", "_", "#", "%"].includes(token)) throw new Error(`unexpected ${token}`);
    return token === "~" ? createNode("mtext", ["\u00a0"]) : createOperator(token === "-" ? "−" : token);
  }

  #group(end) {
    const parts = this.#until(() => this.#peek() === end);
    this.at++;
    return parts.length === 1 ? parts[0] : createNode("mrow", parts);
  }

  #command(name) {
    if (Object.hasOwn(LETTERS, name)) return createNode("mi", [LETTERS[name]]);
    if (Object.hasOwn(OPERATORS, name)) return createOperator(OPERATORS[name]);
    if (Object.hasOwn(INTEGRALS, name)) return createNode("mo", [INTEGRALS[name]]);
    if (Object.hasOwn(LARGE, name)) return createNode("mo", [LARGE[name]]);
    if (FUNCTIONS.has(name) || LIMITS.has(name)) return createNode("mi", [name]);
    if (Object.hasOwn(SPACES, name)) return space(SPACES[name]);
    if (Object.hasOwn(ACCENTS, name)) return this.#accent(ACCENTS[name]);
    if (Object.hasOwn(VARIANTS, name)) return this.#variant(VARIANTS[name]);
    if (TEXTS.has(name)) return createNode(name === "operatorname" ? "mi" : "mtext", [this.#raw()]);
    if (SIZES.has(name)) return this.#peek() === undefined ? createNode("mrow", []) : this.#one();
    if (["mathbf", "boldsymbol", "bm", "mathit"].includes(name)) return this.#one();
    if (/^[dt]?frac$/.test(name)) return createNode("mfrac", [this.#one(), this.#one()]);
    if (name === "binom") return this.#binomial();
    if (name === "sqrt") return this.#root();
    if (name === "left") return this.#fenced();
    if (name === "begin") return this.#environment();
    if ("{}$%&#_|".includes(name)) return createOperator(name === "|" ? "‖" : name);
    throw new Error(`unknown: ${name}`);
  }

  #accent(accent) {
    const over = createNode("mover", [this.#one(), createNode("mo", [accent])]);
    over.setAttribute("accent", "true");
    return over;
  }

  #variant(letters) {
    return createNode("mi", [[...this.#raw()].map((letter) => letters[letter] ?? letter).join("")]);
  }

  #binomial() {
    const both = createNode("mfrac", [this.#one(), this.#one()]);
    both.setAttribute("linethickness", "0");
    return fence("(", [both], ")");
  }

  #root() {
    if (this.#peek() !== "[") return createNode("msqrt", [this.#one()]);
    this.at++;
    const index = this.#group("]");
    return createNode("mroot", [this.#one(), index]);
  }

  #fenced() {
    const open = this.#delimiter();
    const inside = this.#until(() => this.#peek() === "\\right");
    this.at++;
    return fence(open, inside, this.#delimiter());
  }

  #delimiter() {
    const token = this.#next();
    if (token === ".") return "";
    return token.startsWith("\\") ? (OPERATORS[token.slice(1)] ?? (token === "\\|" ? "‖" : token.slice(1))) : token;
  }

  #environment() {
    const name = this.#raw();
    if (name === "array" && this.#peek() === "{") this.#raw(); // column alignment, ignored
    const rows = this.#rows(() => this.#peek() === "\\end");
    this.at++;
    if (this.#raw() !== name) throw new Error("mismatched end");
    if (!/^(?:p|b|B|v|V|small)?matrix$|^(?:cases|aligned|align\*?|gathered|array|equation\*?|split)$/.test(name)) throw new Error(name);
    const full = rows.filter((row, index) => index < rows.length - 1 || row.some((cell) => cell.hasChildNodes()));
    const element = table(full, /align|split/.test(name) ? "right left" : name === "cases" ? "left" : "");
    const [open, close] = FENCES[name] ?? "  ";
    return open === " " ? element : fence(open, [element], close.trim());
  }

  /** The content of braces, unparsed. */
  #raw() {
    if (this.#next() !== "{") return this.tokens[this.at - 1];
    const start = this.at;
    while (this.at < this.tokens.length && this.tokens[this.at] !== "}") this.at++;
    return this.tokens.slice(start, this.at++).join("");
  }
}

/** Surround `inside` with delimiters of the same height. */
function fence(open, inside, close) {
  const side = (text) => (text ? [createNode("mo", [text])] : []);
  return createNode("mrow", [...side(open), ...inside, ...side(close)]);
}

/** An inline operator: brackets only stretch with \\left and \\right. */
function createOperator(text) {
  const element = createNode("mo", [text]);
  if ("()[]{}|‖⌊⌋⌈⌉⟨⟩∣".includes(text)) element.setAttribute("stretchy", "false");
  return element;
}

function table(rows, columns = "") {
  const element = createNode("mtable", rows.map((row) => createNode("mtr", row.map((cell) => createNode("mtd", [cell])))));
  const sides = columns.split(" ");
  if (columns) for (const row of element.children) [...row.children].forEach((cell, n) => cell.classList.add(sides[n % sides.length]));
  return element;
}

function space(width) {
  const element = createNode("mspace", []);
  element.setAttribute("width", width);
  return element;
}

function createNode(name, children) {
  const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  element.append(...children);
  return element;
}
