/** The command palette: sessions, actions and commands, and the keyboard shortcut help. Opened by Ctrl+K or Cmd+K, and "?". */

import { cloneTemplate, setText } from "../shared/elements.js";
import { fill } from "../shared/texts.js";
import { fuzzyMatch } from "./fuzzy_match.js";
import { actionItems, commandItems, recentItems, sessionItems } from "./palette_items.js";
import { highlight } from "./sessions/search.js";

const MAX_RESULTS = 40;
const DEBOUNCE_MS = 150;
const isMac = /mac|iphone|ipad/i.test(navigator.platform);

export function startPalette(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const [dialog, field, list, help] = [byId("palette"), byId("palette-words"), byId("palette-list"), byId("help")];
  let unfinished = 0;
  let commands = [];
  let serverSessions = []; // search results of the server that are not loaded in the list
  let choices = [];
  let active = 0;
  let timer = null;

  app.on("runs", (runs) => (unfinished = runs.unfinished));
  app.palette = { open, help: () => help.showModal() };
  byId("open-palette").addEventListener("click", open);
  if (isMac) {
    for (const key of document.querySelectorAll("kbd.mod, #open-palette .keys")) {
      key.textContent = key.textContent.replace("Ctrl", "⌘");
    }
  }

  addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    const isOpener = key.toLowerCase() === "k" && (isMac ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey && !shiftKey;
    if (isOpener) dialog.open ? dialog.close() : open();
    else if (ctrlKey || metaKey || altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    else if (key === "?") help.showModal();
    else return;
    event.preventDefault();
  });
  for (const modal of [dialog, help]) {
    modal.addEventListener("click", ({ target }) => target === modal && modal.close()); // on the backdrop
    // Escape should not stop a run as well.
    modal.addEventListener("keydown", (event) => event.key === "Escape" && event.stopPropagation());
  }

  function isTyping(target) {
    return target.closest?.("input, textarea, select, [contenteditable], [role=menu]");
  }

  function open() {
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    serverSessions = [];
    dialog.showModal();
    render();
    if (!commands.length) loadCommands();
  }

  async function loadCommands() {
    ({ commands } = await gateway.request("commands.list").catch(() => ({ commands: [] }))); // the palette works without commands
    if (dialog.open) render();
  }

  field.addEventListener("input", () => {
    active = 0;
    render();
    clearTimeout(timer);
    timer = setTimeout(searchServer, DEBOUNCE_MS);
  });
  field.addEventListener("keydown", (event) => {
    const lastIndex = choices.length - 1;
    const targets = {
      ArrowDown: active < lastIndex ? active + 1 : 0,
      ArrowUp: active > 0 ? active - 1 : lastIndex,
      PageDown: Math.min(lastIndex, active + 8),
      PageUp: Math.max(0, active - 8),
    };
    if (event.key in targets) setActive(targets[event.key]);
    else if (event.key === "Enter" && !event.isComposing) run(choices[active]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointermove", ({ target }) => {
    const index = indexOfOption(target);
    if (index >= 0 && index !== active) setActive(index, false);
  });
  list.addEventListener("click", ({ target }) => run(choices[indexOfOption(target)]));

  /** Search sessions that are not loaded. */
  async function searchServer() {
    const query = field.value.trim();
    if (query.length < 2 || query.startsWith("/") || !gateway.ready) return;
    const request = gateway.request("sessions.list", { search: query, limit: 10, own: true });
    const { sessions } = await request.catch(() => ({ sessions: [] }));
    if (!dialog.open || query !== field.value.trim()) return;
    serverSessions = sessions.filter(({ key }) => !app.sessions.find(key));
    if (serverSessions.length) render();
  }

  function findItems() {
    const query = field.value.trim();
    const actions = actionItems(app, { unfinished, help: app.palette.help });
    const commandList = app.writable ? commandItems(app, commands) : [];
    if (!query) return [...recentItems(app), ...actions, ...commandList];
    const candidates = query.startsWith("/")
      ? commandList
      : [...sessionItems(app, [...app.sessions.rows(), ...serverSessions]), ...actions, ...commandList];
    const matches = candidates.map((item) => ({ ...item, match: fuzzyMatch(query, item.name) })).filter(({ match }) => match);
    const best = matches.sort((a, b) => b.match.score - a.match.score).slice(0, MAX_RESULTS);
    const search = {
      group: texts.paletteActions,
      icon: "search",
      name: fill(texts.doSearchFor, query),
      run: () => app.sessions.search(query),
    };
    return query.startsWith("/") ? best : [...best, search];
  }

  /** Groups are ordered by their best match. */
  function render() {
    const items = findItems();
    const groups = new Map();
    for (const item of items) groups.set(item.group, [...(groups.get(item.group) ?? []), item]);
    choices = [...groups.values()].flat();
    active = Math.max(0, Math.min(active, choices.length - 1));
    let number = 0;
    list.replaceChildren(...[...groups].map(([name, members]) => {
      const group = cloneTemplate("palette-group");
      group.setAttribute("aria-label", name);
      group.querySelector(".title").textContent = name;
      group.append(...members.map((item) => createOption(item, number++)));
      return group;
    }));
    byId("palette-none").hidden = choices.length > 0;
    field.setAttribute("aria-expanded", String(choices.length > 0));
    setActive(active);
  }

  function createOption({ name, description, icon, keys, match }, number) {
    const element = cloneTemplate("palette-option");
    element.id = `palette-option-${number}`;
    element.querySelector("use").setAttribute("href", `#sign-${icon}`);
    element.querySelector(".name").append(...highlight(name, match?.ranges ?? []));
    setText(element.querySelector(".about"), description);
    setText(element.querySelector("kbd"), keys);
    return element;
  }

  function setActive(index, intoView = true) {
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    active = index;
    const chosen = byId(`palette-option-${index}`);
    if (!chosen) return field.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", chosen.id);
    if (intoView) chosen.scrollIntoView({ block: "nearest" });
  }

  function indexOfOption(target) {
    const id = target.closest("[role=option]")?.id;
    return id ? Number(id.slice("palette-option-".length)) : -1;
  }

  /** Run an item. Closes the palette first, so that the action can move the focus. */
  function run(item) {
    if (!item) return;
    dialog.close();
    item.run();
  }
}
