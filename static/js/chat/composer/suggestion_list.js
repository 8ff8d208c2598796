/**
 * A list of suggestions above the field one types in: arrow keys, Tab, Enter, Escape, or the pointer.
 *
 * The focus stays in the field, which names the active option. A textarea may not be called a combobox, so its being a list of
 * suggestions is said by aria-autocomplete and aria-haspopup, and their number is read out.
 */

import { copyOf, put } from "../../shared/elements.js";
import { fill } from "../../shared/texts.js";

export class Suggestions {
  /** onChoose(item, how): how is "enter", "tab" or "click". Items are {name, arguments?, help?, disabled?, …}. */
  constructor({ app, field, onChoose }) {
    Object.assign(this, { app, field, onChoose });
    this.box = document.getElementById("suggestions");
    this.list = document.getElementById("suggestion-list");
    this.items = [];
    this.active = -1;
    this.list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus, a phone its keyboard
    this.list.addEventListener("pointermove", ({ target }) => this.#point(this.#placeOf(target)));
    this.list.addEventListener("click", ({ target }) => this.#choose(this.#placeOf(target), "click"));
    field.addEventListener("blur", () => this.hide());
  }

  get open() {
    return !this.box.hidden;
  }

  show(items) {
    if (!items.length) return this.hide();
    const { words } = this.app;
    if (!this.open || items.length !== this.items.length) {
      this.app.say(items.length === 1 ? words.oneSuggestion : fill(words.manySuggestions, items.length));
    }
    this.items = items;
    this.list.replaceChildren(...items.map(option));
    this.box.hidden = false;
    this.field.setAttribute("aria-controls", this.list.id);
    this.#point(items.findIndex(({ disabled }) => !disabled));
  }

  hide() {
    this.box.hidden = true;
    this.items = [];
    this.field.removeAttribute("aria-controls");
    this.#point(-1);
  }

  /** A key was pressed in the field; true when it was meant for the list. */
  take({ key, shiftKey }) {
    if (!this.open) return false;
    if (key === "ArrowDown" || key === "ArrowUp") this.#step(key === "ArrowDown" ? 1 : -1);
    else if (key === "Escape") this.hide();
    else if (key === "Tab" && !shiftKey) return this.#choose(this.active, "tab");
    else if (key === "Enter" && !shiftKey) return this.#choose(this.active, "enter");
    else return false;
    return true;
  }

  #step(by) {
    for (let tried = 0, at = this.active; tried < this.items.length; tried++) {
      at = (at + by + this.items.length) % this.items.length;
      if (!this.items[at].disabled) return this.#point(at);
    }
  }

  #point(at) {
    if (at >= 0 && this.items[at].disabled) return;
    this.active = at;
    this.list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    const chosen = this.list.children[at];
    if (at < 0 || !chosen) return this.field.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    chosen.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", chosen.id);
  }

  #choose(at, how) {
    const item = this.items[at];
    if (!item || item.disabled) return false;
    this.hide();
    this.onChoose(item, how);
    return true;
  }

  #placeOf(target) {
    return [...this.list.children].indexOf(target.closest("li"));
  }
}

function option({ name, arguments: after, help, disabled }, index) {
  const element = copyOf("suggestion");
  element.id = `suggestion-${index}`;
  element.setAttribute("aria-selected", "false");
  if (disabled) element.setAttribute("aria-disabled", "true");
  element.querySelector(".name").textContent = name;
  put(element.querySelector(".arguments"), after);
  put(element.querySelector(".help"), help);
  return element;
}
