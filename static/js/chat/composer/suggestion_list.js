/**
 * A list of suggestions above a text field, used by keyboard or pointer.
 *
 * The focus stays in the field, which references the active option. A textarea cannot have the combobox role, so aria-autocomplete
 * and aria-haspopup describe it and the number of suggestions is announced.
 */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { fill } from "../../shared/texts.js";

export class SuggestionList {
  /** onChoose(item, trigger): the trigger is "enter", "tab" or "click". Items are {name, arguments?, help?, disabled?, …}. */
  constructor({ app, field, onChoose }) {
    Object.assign(this, { app, field, onChoose });
    this.box = document.getElementById("suggestions");
    this.list = document.getElementById("suggestion-list");
    this.items = [];
    this.active = -1;
    // Keeps the focus in the field, and a phone's keyboard open.
    this.list.addEventListener("mousedown", (event) => event.preventDefault());
    this.list.addEventListener("pointermove", ({ target }) => this.#setActive(this.#indexOfOption(target)));
    this.list.addEventListener("click", ({ target }) => this.#choose(this.#indexOfOption(target), "click"));
    field.addEventListener("blur", () => this.hide());
  }

  get open() {
    return !this.box.hidden;
  }

  show(items) {
    if (!items.length) return this.hide();
    const { texts } = this.app;
    if (!this.open || items.length !== this.items.length) {
      this.app.announce(items.length === 1 ? texts.oneSuggestion : fill(texts.manySuggestions, items.length));
    }
    this.items = items;
    this.list.replaceChildren(...items.map(createOption));
    this.box.hidden = false;
    this.field.setAttribute("aria-controls", this.list.id);
    this.#setActive(items.findIndex(({ disabled }) => !disabled));
  }

  hide() {
    this.box.hidden = true;
    this.items = [];
    this.field.removeAttribute("aria-controls");
    this.#setActive(-1);
  }

  /** Handle a key pressed in the field. Returns whether the list used it. */
  handleKey({ key, shiftKey }) {
    if (!this.open) return false;
    if (key === "ArrowDown" || key === "ArrowUp") this.#step(key === "ArrowDown" ? 1 : -1);
    else if (key === "Escape") this.hide();
    else if (key === "Tab" && !shiftKey) return this.#choose(this.active, "tab");
    else if (key === "Enter" && !shiftKey) return this.#choose(this.active, "enter");
    else return false;
    return true;
  }

  #step(offset) {
    for (let attempts = 0, index = this.active; attempts < this.items.length; attempts++) {
      index = (index + offset + this.items.length) % this.items.length;
      if (!this.items[index].disabled) return this.#setActive(index);
    }
  }

  #setActive(index) {
    if (index >= 0 && this.items[index].disabled) return;
    this.active = index;
    this.list.querySelector('[aria-selected="true"]')?.setAttribute("aria-selected", "false");
    const option = this.list.children[index];
    if (index < 0 || !option) return this.field.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.field.setAttribute("aria-activedescendant", option.id);
  }

  #choose(index, trigger) {
    const item = this.items[index];
    if (!item || item.disabled) return false;
    this.hide();
    this.onChoose(item, trigger);
    return true;
  }

  #indexOfOption(target) {
    return [...this.list.children].indexOf(target.closest("li"));
  }
}

function createOption({ name, arguments: usage, help, disabled }, index) {
  const element = cloneTemplate("suggestion");
  element.id = `suggestion-${index}`;
  element.setAttribute("aria-selected", "false");
  if (disabled) element.setAttribute("aria-disabled", "true");
  element.querySelector(".name").textContent = name;
  setText(element.querySelector(".arguments"), usage);
  setText(element.querySelector(".help"), help);
  return element;
}
