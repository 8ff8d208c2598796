/** Finding what was said: words in, places out, each a link to its message. While there are words, the list makes room. */

import { copyOf, put } from "../../shared/elements.js";
import { longTime, shortDate } from "./dates.js";
import { titleOf } from "./row.js";
import { fill, reason } from "../../shared/texts.js";

const CALM_MS = 180; // after the last letter
const MOST = 30;

export function startSearch(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const field = at("search-words");
  const list = at("found-list");
  let timer = null;
  let asked = 0; // the number of the last question: answers to earlier ones come too late

  /** Put the words into the field, or only go there. */
  app.sessions.search = (text = null) => {
    app.togglePane("sessions", true);
    if (text !== null) field.value = text;
    field.focus();
    field.select();
    look();
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, field.value.trim() ? CALM_MS : 0);
  });
  at("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (list.dataset.query !== field.value.trim()) await look();
    list.querySelector("a")?.click();
  });
  at("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") list.querySelector("a")?.focus();
    else if (event.key === "Escape" && field.value) leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const place = links.indexOf(event.target.closest("a"));
    if (event.key === "ArrowDown") links[place + 1]?.focus();
    else if (event.key === "ArrowUp") (links[place - 1] ?? field).focus();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function leave() {
    field.value = "";
    field.focus();
    look();
  }

  async function look() {
    const query = field.value.trim();
    const number = ++asked;
    at("found").hidden = !query;
    at("listed").hidden = Boolean(query);
    if (!query) return clear();
    if (!list.children.length) put(at("found-note"), words.searching);
    try {
      const { titles = [], results } = await gateway.request("sessions.search", { query, limit: MOST, own: true });
      if (number === asked) show(query, [...titles, ...results]);
    } catch (error) {
      if (number !== asked) return;
      clear();
      put(at("found-note"), fill(words.searchFailed, reason(words, error)));
    }
  }

  function clear() {
    list.replaceChildren();
    delete list.dataset.query;
  }

  function show(query, results) {
    list.dataset.query = query;
    list.replaceChildren(...results.map(item));
    const many = results.length === MOST ? words.foundMost : words.foundMany;
    const told = results.length === 0 ? words.foundNothing : results.length === 1 ? words.foundOne : fill(many, results.length);
    put(at("found-note"), told);
    app.say(told);
  }

  function item({ sessionKey, title, messageId, role, sender, snippet, matches, timestamp }) {
    const element = copyOf("found-row");
    element.querySelector("a").href = app.address(sessionKey, messageId);
    const name = element.querySelector(".name");
    const text = element.querySelector(".snippet");
    const when = element.querySelector("time");
    when.title = longTime(timestamp);
    if (messageId) {
      name.textContent = titleOf({ key: sessionKey, displayName: title }, words);
      text.append(...marked(snippet, matches));
      const by = role !== "user" ? words.byAgent : sender === app.username ? words.byYou : sender;
      when.textContent = [by, shortDate(timestamp)].filter(Boolean).join(" · ");
    } else {
      name.append(...marked(snippet, matches)); // the title itself was found
      text.hidden = true;
      when.textContent = shortDate(timestamp);
    }
    return element;
  }
}

/** Text with the given places in <mark>; as data, never as HTML. */
export function marked(text, places) {
  const parts = [];
  let from = 0;
  for (const [start, end] of places) {
    parts.push(text.slice(from, start));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    parts.push(mark);
    from = end;
  }
  return [...parts, text.slice(from)].filter(Boolean);
}
