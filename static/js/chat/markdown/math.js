/**
 * Formulas, from TeX to MathML, which browsers set by themselves.
 *
 * A useful part of TeX, not all of it: what we do not know stays as it was written, in its own typeface. Everything is made of
 * elements and text nodes, so a formula cannot bring anything else with it.
 */

import { ACCENTS, FENCES, FUNCTIONS, INTEGRALS, LARGE, LETTERS, LIMITS, OPERATORS, SPACES, VARIANTS } from "./math_symbols.js";

const TOKEN = /\\(?:[A-Za-z]+|[^])|\s+|\d+(?:\.\d+)?|[^]/gu;
const LONGEST = 4000; // characters
const DELIMITERS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];
const SIZES = new Set(["displaystyle", "textstyle", "limits", "nolimits", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl", "Bigr", "biggl", "biggr", "nonumber"]);
const TEXTS = new Set(["text", "mathrm", "textrm", "textbf", "textit", "operatorname", "mathsf", "mathtt", "mbox"]);

/** Replace the source in an element of class `math` by the formula, if we can. */
export function showMaths(element) {
  const source = element.textContent.trim();
  try {
    const [open, close] = DELIMITERS.find(([start, end]) => source.startsWith(start) && source.endsWith(end)) ?? ["", ""];
    const inner = source.slice(open.length, source.length - close.length);
    if (!inner.trim() || source.length > LONGEST) throw new Error("not a formula");
    const display = element.tagName === "DIV" || open === "$$" || open === "\\[";
    const formula = node("math", new Parser(inner, display).whole());
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

  whole() {
    const rows = this.#rows(() => this.at >= this.tokens.length);
    return rows.length === 1 && rows[0].length === 1 ? [rows[0][0]] : [table(rows)];
  }

  #peek() {
    while (/^\s+$/.test(this.tokens[this.at] ?? "")) this.at++;
    return this.tokens[this.at];
  }

  #next() {
    this.#peek();
    if (this.at >= this.tokens.length) throw new Error("the formula ends too early");
    return this.tokens[this.at++];
  }

  /** Cells divided by & and rows by \\ up to the end that `isEnd` sees. */
  #rows(isEnd) {
    const rows = [[]];
    for (;;) {
      rows.at(-1).push(node("mrow", this.#until(() => isEnd() || ["&", "\\\\"].includes(this.#peek()))));
      if (isEnd()) return rows;
      if (this.#next() === "\\\\") rows.push([]);
      this.#peek();
    }
  }

  #until(isEnd) {
    const parts = [];
    while (this.#peek() !== undefined && !isEnd()) parts.push(this.#scripted());
    if (this.#peek() === undefined && !isEnd()) throw new Error("something is not closed");
    return parts;
  }

  /** One thing with what stands above and below it. */
  #scripted() {
    const limits = this.#takesLimits(this.#peek());
    const base = this.#one();
    let below = null;
    let above = null;
    for (let sign = this.#peek(); sign === "^" || sign === "_" || sign === "'"; sign = this.#peek()) {
      this.at++;
      if (sign === "_") below = this.#one();
      else if (sign === "^") above = this.#one();
      else above = node("mo", ["′"]);
    }
    if (!below && !above) return base;
    const [both, under, over] = limits ? ["munderover", "munder", "mover"] : ["msubsup", "msub", "msup"];
    if (below && above) return node(both, [base, below, above]);
    return below ? node(under, [base, below]) : node(over, [base, above]);
  }

  #takesLimits(token) {
    const name = token?.slice(1);
    return token?.startsWith("\\") && ((this.display && Object.hasOwn(LARGE, name)) || LIMITS.has(name) || name === "overbrace");
  }

  #one() {
    const token = this.#next();
    if (token === "{") return this.#group("}");
    if (token.startsWith("\\")) return this.#command(token.slice(1));
    if (/^\d/.test(token)) return node("mn", [token]);
    if (/^\p{L}$/u.test(token)) return node("mi", [token]);
    if (["}", "&", "^", "_", "#", "%"].includes(token)) throw new Error(`unexpected ${token}`);
    return token === "~" ? node("mtext", ["\u00a0"]) : sign(token === "-" ? "−" : token);
  }

  #group(end) {
    const parts = this.#until(() => this.#peek() === end);
    this.at++;
    return parts.length === 1 ? parts[0] : node("mrow", parts);
  }

  #command(name) {
    if (Object.hasOwn(LETTERS, name)) return node("mi", [LETTERS[name]]);
    if (Object.hasOwn(OPERATORS, name)) return sign(OPERATORS[name]);
    if (Object.hasOwn(INTEGRALS, name)) return node("mo", [INTEGRALS[name]]);
    if (Object.hasOwn(LARGE, name)) return node("mo", [LARGE[name]]);
    if (FUNCTIONS.has(name) || LIMITS.has(name)) return node("mi", [name]);
    if (Object.hasOwn(SPACES, name)) return space(SPACES[name]);
    if (Object.hasOwn(ACCENTS, name)) return this.#accent(ACCENTS[name]);
    if (Object.hasOwn(VARIANTS, name)) return this.#variant(VARIANTS[name]);
    if (TEXTS.has(name)) return node(name === "operatorname" ? "mi" : "mtext", [this.#raw()]);
    if (SIZES.has(name)) return this.#peek() === undefined ? node("mrow", []) : this.#one();
    if (["mathbf", "boldsymbol", "bm", "mathit"].includes(name)) return this.#one();
    if (/^[dt]?frac$/.test(name)) return node("mfrac", [this.#one(), this.#one()]);
    if (name === "binom") return this.#binomial();
    if (name === "sqrt") return this.#root();
    if (name === "left") return this.#fenced();
    if (name === "begin") return this.#environment();
    if ("{}$%&#_|".includes(name)) return sign(name === "|" ? "‖" : name);
    throw new Error(`unknown: ${name}`);
  }

  #accent(sign) {
    const over = node("mover", [this.#one(), node("mo", [sign])]);
    over.setAttribute("accent", "true");
    return over;
  }

  #variant(letters) {
    return node("mi", [[...this.#raw()].map((letter) => letters[letter] ?? letter).join("")]);
  }

  #binomial() {
    const both = node("mfrac", [this.#one(), this.#one()]);
    both.setAttribute("linethickness", "0");
    return fence("(", [both], ")");
  }

  #root() {
    if (this.#peek() !== "[") return node("msqrt", [this.#one()]);
    this.at++;
    const index = this.#group("]");
    return node("mroot", [this.#one(), index]);
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
    if (name === "array" && this.#peek() === "{") this.#raw(); // its columns
    const rows = this.#rows(() => this.#peek() === "\\end");
    this.at++;
    if (this.#raw() !== name) throw new Error("not the end of this");
    if (!/^(?:p|b|B|v|V|small)?matrix$|^(?:cases|aligned|align\*?|gathered|array|equation\*?|split)$/.test(name)) throw new Error(name);
    const full = rows.filter((row, index) => index < rows.length - 1 || row.some((cell) => cell.hasChildNodes()));
    const made = table(full, /align|split/.test(name) ? "right left" : name === "cases" ? "left" : "");
    const [open, close] = FENCES[name] ?? "  ";
    return open === " " ? made : fence(open, [made], close.trim());
  }

  /** What stands in braces, as it is. */
  #raw() {
    if (this.#next() !== "{") return this.tokens[this.at - 1];
    const start = this.at;
    while (this.at < this.tokens.length && this.tokens[this.at] !== "}") this.at++;
    return this.tokens.slice(start, this.at++).join("");
  }
}

/** Around something, as high as it is. */
function fence(open, inside, close) {
  const side = (text) => (text ? [node("mo", [text])] : []);
  return node("mrow", [...side(open), ...inside, ...side(close)]);
}

/** A sign in the text: brackets grow with \\left and \\right only. */
function sign(text) {
  const made = node("mo", [text]);
  if ("()[]{}|‖⌊⌋⌈⌉⟨⟩∣".includes(text)) made.setAttribute("stretchy", "false");
  return made;
}

function table(rows, columns = "") {
  const made = node("mtable", rows.map((row) => node("mtr", row.map((cell) => node("mtd", [cell])))));
  const sides = columns.split(" ");
  if (columns) for (const row of made.children) [...row.children].forEach((cell, n) => cell.classList.add(sides[n % sides.length]));
  return made;
}

function space(width) {
  const made = node("mspace", []);
  made.setAttribute("width", width);
  return made;
}

function node(name, children) {
  const made = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  made.append(...children);
  return made;
}
