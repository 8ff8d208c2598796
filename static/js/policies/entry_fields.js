/**
 * Fields with one policy entry per line: suggests tools, groups and plugins for the current line.
 *
 * `<textarea data-entries="id">` names a <datalist> with the options. The focus stays in the field, which references the active
 * option; arrow keys move, Enter or Tab inserts, Escape closes. Without the script it is a plain field.
 */

const MAX_RESULTS = 8;
let lastListId = 0;

/** Handle all such fields in `root`, including those added later. */
export function startEntryFields(root) {
  root.addEventListener("input", ({ target }) => target.matches?.("[data-entries]") && suggest(target));
  root.addEventListener("keydown", (event) => event.target.matches?.("[data-entries]") && handleKey(event));
  root.addEventListener("focusout", ({ target }) => target.matches?.("[data-entries]") && close(target));
}

/** Return the text of the entry before the caret, in lower case, and where it starts. */
function getEntryAtCaret(field) {
  const before = field.value.slice(0, field.selectionStart);
  const start = before.search(/[^\s,]*$/);
  return { start, typed: before.slice(start).toLowerCase() };
}

function suggest(field) {
  const { typed } = getEntryAtCaret(field);
  const options = [...(document.getElementById(field.dataset.entries)?.options ?? [])];
  const matches = typed ? options.filter(({ value }) => value.toLowerCase().includes(typed) && value !== typed) : [];
  matches.sort((a, b) => rank(a.value, typed) - rank(b.value, typed));
  if (!matches.length) return close(field);
  const list = getList(field);
  list.replaceChildren(...matches.slice(0, MAX_RESULTS).map((option, index) => createOption(field, list, option, index)));
  list.hidden = false;
  setActive(field, list, 0);
}

/** Prefix matches first, then matches at the start of a part. */
function rank(value, typed) {
  return value.startsWith(typed) ? 0 : value.includes(`:${typed}`) || value.includes(`_${typed}`) ? 1 : 2;
}

function getList(field) {
  let list = field.nextElementSibling;
  if (list?.matches(".entry-list")) return list;
  list = document.createElement("ul");
  list.classList.add("entry-list", "menu");
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.labels?.[0]?.textContent.trim() ?? "");
  list.id = `entry-list-${++lastListId}`;
  list.hidden = true;
  // Keeps the focus in the field, and a phone's keyboard open.
  list.addEventListener("mousedown", (event) => event.preventDefault());
  field.after(list);
  field.setAttribute("aria-autocomplete", "list");
  return list;
}

function createOption(field, list, option, index) {
  const item = document.createElement("li");
  const name = document.createElement("code");
  const hint = document.createElement("span");
  item.setAttribute("role", "option");
  item.id = `${list.id}-${index}`;
  name.textContent = option.value;
  hint.textContent = option.label === option.value ? "" : option.label;
  hint.className = "hint";
  item.append(name, hint);
  item.addEventListener("click", () => insert(field, option.value));
  return item;
}

function setActive(field, list, activeIndex) {
  [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === activeIndex)));
  const activeItem = list.children[activeIndex];
  activeItem.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-controls", list.id);
  field.setAttribute("aria-activedescendant", activeItem.id);
}

function handleKey(event) {
  const field = event.target;
  const list = field.nextElementSibling;
  if (!list?.matches(".entry-list") || list.hidden || event.isComposing) return;
  const activeIndex = [...list.children].findIndex((item) => item.getAttribute("aria-selected") === "true");
  const count = list.children.length;
  if (event.key === "ArrowDown") setActive(field, list, (activeIndex + 1) % count);
  else if (event.key === "ArrowUp") setActive(field, list, (activeIndex - 1 + count) % count);
  else if (event.key === "Escape") close(field);
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) list.children[activeIndex].click();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function insert(field, value) {
  const { start } = getEntryAtCaret(field);
  field.setRangeText(value, start, field.selectionStart, "end");
  close(field);
  field.dispatchEvent(new Event("input", { bubbles: true }));
  close(field);
}

function close(field) {
  const list = field.nextElementSibling;
  if (list?.matches(".entry-list")) list.hidden = true;
  field.removeAttribute("aria-controls");
  field.removeAttribute("aria-activedescendant");
}
