/** The palette: conversations, actions and commands by a few letters; and the keys of the page. Ctrl or Cmd with K, and "?". */

import { copyOf, put } from "../shared/elements.js";
import { fits } from "./fuzzy_match.js";
import { actionItems, commandItems, recentItems, sessionItems } from "./palette_items.js";
import { marked } from "./sessions/search.js";
import { fill } from "../shared/texts.js";

const MOST = 40; // choices shown at a time
const CALM_MS = 150;
const onMac = /mac|iphone|ipad/i.test(navigator.platform);

export function startPalette(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const [dialog, field, list, help] = [at("palette"), at("palette-words"), at("palette-list"), at("help")];
  let unfinished = 0;
  let commands = [];
  let further = []; // conversations that the server found, beyond those loaded
  let choices = [];
  let active = 0;
  let timer = null;

  app.on("runs", (runs) => (unfinished = runs.unfinished));
  app.palette = { open, help: () => help.showModal() };
  at("open-palette").addEventListener("click", open);
  if (onMac) for (const key of document.querySelectorAll("kbd.mod, #open-palette .keys")) key.textContent = key.textContent.replace("Ctrl", "⌘");

  addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    const isOpener = key.toLowerCase() === "k" && (onMac ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey && !shiftKey;
    if (isOpener) dialog.open ? dialog.close() : open();
    else if (ctrlKey || metaKey || altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    else if (key === "?") help.showModal();
    else return;
    event.preventDefault();
  });
  for (const each of [dialog, help]) {
    each.addEventListener("click", ({ target }) => target === each && each.close()); // beside it
    each.addEventListener("keydown", (event) => event.key === "Escape" && event.stopPropagation()); // it does not also stop a run
  }

  function isTyping(target) {
    return target.closest?.("input, textarea, select, [contenteditable], [role=menu]");
  }

  function open() {
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    further = [];
    dialog.showModal();
    draw();
    if (!commands.length) learnCommands();
  }

  async function learnCommands() {
    ({ commands } = await gateway.request("commands.list").catch(() => ({ commands: [] }))); // without them it is still a palette
    if (dialog.open) draw();
  }

  field.addEventListener("input", () => {
    active = 0;
    draw();
    clearTimeout(timer);
    timer = setTimeout(lookFurther, CALM_MS);
  });
  field.addEventListener("keydown", (event) => {
    const last = choices.length - 1;
    const to = { ArrowDown: active < last ? active + 1 : 0, ArrowUp: active > 0 ? active - 1 : last, PageDown: Math.min(last, active + 8), PageUp: Math.max(0, active - 8) };
    if (event.key in to) choose(to[event.key]);
    else if (event.key === "Enter" && !event.isComposing) run(choices[active]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointermove", ({ target }) => {
    const place = placeOf(target);
    if (place >= 0 && place !== active) choose(place, false);
  });
  list.addEventListener("click", ({ target }) => run(choices[placeOf(target)]));

  /** Conversations that the list has not come to. */
  async function lookFurther() {
    const query = field.value.trim();
    if (query.length < 2 || query.startsWith("/") || !gateway.ready) return;
    const { sessions } = await gateway.request("sessions.list", { search: query, limit: 10, own: true }).catch(() => ({ sessions: [] }));
    if (!dialog.open || query !== field.value.trim()) return;
    further = sessions.filter(({ key }) => !app.sessions.find(key));
    if (further.length) draw();
  }

  function found() {
    const query = field.value.trim();
    const actions = actionItems(app, { unfinished, help: app.palette.help });
    const orders = app.writable ? commandItems(app, commands) : [];
    if (!query) return [...recentItems(app), ...actions, ...orders];
    const all = query.startsWith("/") ? orders : [...sessionItems(app, [...app.sessions.rows(), ...further]), ...actions, ...orders];
    const fitting = all.map((item) => ({ ...item, fit: fits(query, item.name) })).filter(({ fit }) => fit);
    const best = fitting.sort((a, b) => b.fit.score - a.fit.score).slice(0, MOST);
    const search = { group: words.paletteActions, sign: "search", name: fill(words.doSearchFor, query), run: () => app.sessions.search(query) };
    return query.startsWith("/") ? best : [...best, search];
  }

  /** Groups in the order of their best choice. */
  function draw() {
    const items = found();
    const groups = new Map();
    for (const item of items) groups.set(item.group, [...(groups.get(item.group) ?? []), item]);
    choices = [...groups.values()].flat();
    active = Math.max(0, Math.min(active, choices.length - 1));
    let number = 0;
    list.replaceChildren(...[...groups].map(([name, members]) => {
      const group = copyOf("palette-group");
      group.setAttribute("aria-label", name);
      group.querySelector(".title").textContent = name;
      group.append(...members.map((item) => option(item, number++)));
      return group;
    }));
    at("palette-none").hidden = choices.length > 0;
    field.setAttribute("aria-expanded", String(choices.length > 0));
    choose(active);
  }

  function option({ name, about, sign, keys, fit }, number) {
    const element = copyOf("palette-option");
    element.id = `palette-option-${number}`;
    element.querySelector("use").setAttribute("href", `#sign-${sign}`);
    element.querySelector(".name").append(...marked(name, fit?.places ?? []));
    put(element.querySelector(".about"), about);
    put(element.querySelector("kbd"), keys);
    return element;
  }

  function choose(place, intoView = true) {
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    active = place;
    const chosen = at(`palette-option-${place}`);
    if (!chosen) return field.removeAttribute("aria-activedescendant");
    chosen.setAttribute("aria-selected", "true");
    field.setAttribute("aria-activedescendant", chosen.id);
    if (intoView) chosen.scrollIntoView({ block: "nearest" });
  }

  function placeOf(target) {
    const id = target.closest("[role=option]")?.id;
    return id ? Number(id.slice("palette-option-".length)) : -1;
  }

  /** Closed first, so that the choice may put the focus where it wants. */
  function run(item) {
    if (!item) return;
    dialog.close();
    item.run();
  }
}
