/**
 * Fields with one policy entry per line: suggests tools, groups and plugins for the current line.
 *
 * `<textarea data-entries="id">` names a <datalist> with the options. The focus stays in the field, which references the active option;
 * arrow keys move, Enter or Tab inserts, Escape closes. Without the script it is a plain field.
 */

const MAX_RESULTS = 8;
let lastListId = 0;

/** Handle all such fields in `root`, including those added later. */
export function startEntryFields(root) {
  root.addEventListener("input", ({ target }) => target.matches?.("[data-entries]") && suggest(target));
  root.addEventListener("keydown", (event) => event.target.matches?.("[data-entries]") && handleKey(event));
  root.addEventListener("focusout", ({ target }) => target.matches?.("[data-entries]") && close(target));
}

/** The word before the caret and where it starts. */
function wordAt(field) {
  const before = field.value.slice(0, field.selectionStart);
  const start = before.search(/[^\s,]*$/);
  return { start, letters: before.slice(start).toLowerCase() };
}

function suggest(field) {
  const { letters } = wordAt(field);
  const options = [...(document.getElementById(field.dataset.entries)?.options ?? [])];
  const matches = letters ? options.filter(({ value }) => value.toLowerCase().includes(letters) && value !== letters) : [];
  matches.sort((a, b) => rank(a.value, letters) - rank(b.value, letters));
  if (!matches.length) return close(field);
  const list = getList(field);
  list.replaceChildren(...matches.slice(0, MAX_RESULTS).map((word, at) => createOption(field, list, word, at)));
  list.hidden = false;
  setActive(field, list, 0);
}

function rank(word, letters) {
  return word.startsWith(letters) ? 0 : word.includes(`:${letters}`) || word.includes(`_${letters}`) ? 1 : 2;
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
  list.addEventListener("mousedown", (event) => event.preventDefault()); // keeps the focus in the field, and a phone's keyboard open
  field.after(list);
  field.setAttribute("aria-autocomplete", "list");
  return list;
}

function createOption(field, list, word, at) {
  const item = document.createElement("li");
  const name = document.createElement("code");
  const hint = document.createElement("span");
  item.setAttribute("role", "option");
  item.id = `${list.id}-${at}`;
  name.textContent = word.value;
  hint.textContent = word.label === word.value ? "" : word.label;
  hint.className = "hint";
  item.append(name, hint);
  item.addEventListener("click", () => insert(field, word.value));
  return item;
}

function setActive(field, list, at) {
  [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
  const chosen = list.children[at];
  chosen.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-controls", list.id);
  field.setAttribute("aria-activedescendant", chosen.id);
}

function handleKey(event) {
  const field = event.target;
  const list = field.nextElementSibling;
  if (!list?.matches(".entry-list") || list.hidden || event.isComposing) return;
  const at = [...list.children].findIndex((item) => item.getAttribute("aria-selected") === "true");
  const count = list.children.length;
  if (event.key === "ArrowDown") setActive(field, list, (at + 1) % count);
  else if (event.key === "ArrowUp") setActive(field, list, (at - 1 + count) % count);
  else if (event.key === "Escape") close(field);
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) list.children[at].click();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function insert(field, word) {
  const { start } = wordAt(field);
  field.setRangeText(word, start, field.selectionStart, "end");
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
