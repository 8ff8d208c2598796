/**
 * Fields with one policy entry a line: tools, groups and plugins are suggested for the line one writes in.
 *
 * `<textarea data-entries="id">` names a <datalist> with the words. The focus stays in the field, which names the active option;
 * arrows choose, Enter or Tab takes it, Escape closes. Without the script it is a plain field.
 */

const MOST = 8;
let made = 0;

/** Serves every such field in `root`, also those that come later. */
export function startEntries(root) {
  root.addEventListener("input", ({ target }) => target.matches?.("[data-entries]") && suggest(target));
  root.addEventListener("keydown", (event) => event.target.matches?.("[data-entries]") && pressed(event));
  root.addEventListener("focusout", ({ target }) => target.matches?.("[data-entries]") && close(target));
}

/** The word at the caret: where it begins, and its letters. */
function wordAt(field) {
  const before = field.value.slice(0, field.selectionStart);
  const start = before.search(/[^\s,]*$/);
  return { start, letters: before.slice(start).toLowerCase() };
}

function suggest(field) {
  const { letters } = wordAt(field);
  const words = [...(document.getElementById(field.dataset.entries)?.options ?? [])];
  const fitting = letters ? words.filter(({ value }) => value.toLowerCase().includes(letters) && value !== letters) : [];
  fitting.sort((a, b) => rank(a.value, letters) - rank(b.value, letters));
  if (!fitting.length) return close(field);
  const list = listOf(field);
  list.replaceChildren(...fitting.slice(0, MOST).map((word, at) => option(field, list, word, at)));
  list.hidden = false;
  point(field, list, 0);
}

function rank(word, letters) {
  return word.startsWith(letters) ? 0 : word.includes(`:${letters}`) || word.includes(`_${letters}`) ? 1 : 2;
}

function listOf(field) {
  let list = field.nextElementSibling;
  if (list?.matches(".entry-list")) return list;
  list = document.createElement("ul");
  list.classList.add("entry-list", "menu");
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.labels?.[0]?.textContent.trim() ?? "");
  list.id = `entry-list-${++made}`;
  list.hidden = true;
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus, a phone its keyboard
  field.after(list);
  field.setAttribute("aria-autocomplete", "list");
  return list;
}

function option(field, list, word, at) {
  const item = document.createElement("li");
  const name = document.createElement("code");
  const hint = document.createElement("span");
  item.setAttribute("role", "option");
  item.id = `${list.id}-${at}`;
  name.textContent = word.value;
  hint.textContent = word.label === word.value ? "" : word.label;
  hint.className = "hint";
  item.append(name, hint);
  item.addEventListener("click", () => take(field, word.value));
  return item;
}

function point(field, list, at) {
  [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === at)));
  const chosen = list.children[at];
  chosen.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-controls", list.id);
  field.setAttribute("aria-activedescendant", chosen.id);
}

function pressed(event) {
  const field = event.target;
  const list = field.nextElementSibling;
  if (!list?.matches(".entry-list") || list.hidden || event.isComposing) return;
  const at = [...list.children].findIndex((item) => item.getAttribute("aria-selected") === "true");
  const count = list.children.length;
  if (event.key === "ArrowDown") point(field, list, (at + 1) % count);
  else if (event.key === "ArrowUp") point(field, list, (at - 1 + count) % count);
  else if (event.key === "Escape") close(field);
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) list.children[at].click();
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function take(field, word) {
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
