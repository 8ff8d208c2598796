/** Message search: each result links to its message. While there is a query, the results replace the list. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeError, fill } from "../../shared/texts.js";
import { formatDate, formatFullTime } from "./dates.js";
import { getTitle } from "./row.js";

const DEBOUNCE_MS = 180; // after the last keystroke
const MAX_RESULTS = 30;

export function startSearch(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const field = byId("search-words");
  const list = byId("found-list");
  let timer = null;
  let lastRequest = 0; // responses to earlier requests are ignored

  /** Focus the field, with a query if given. */
  app.sessions.search = (text = null) => {
    app.togglePane("sessions", true);
    if (text !== null) field.value = text;
    field.focus();
    field.select();
    search();
  };

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, field.value.trim() ? DEBOUNCE_MS : 0);
  });
  byId("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (list.dataset.query !== field.value.trim()) await search();
    list.querySelector("a")?.click();
  });
  byId("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") list.querySelector("a")?.focus();
    else if (event.key === "Escape" && field.value) clearQuery();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")];
    const index = links.indexOf(event.target.closest("a"));
    if (event.key === "ArrowDown") links[index + 1]?.focus();
    else if (event.key === "ArrowUp") (links[index - 1] ?? field).focus();
    else if (event.key === "Escape") clearQuery();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function clearQuery() {
    field.value = "";
    field.focus();
    search();
  }

  async function search() {
    const query = field.value.trim();
    const requestNumber = ++lastRequest;
    byId("found").hidden = !query;
    byId("listed").hidden = Boolean(query);
    if (!query) return clear();
    if (!list.children.length) setText(byId("found-note"), texts.searching);
    try {
      const { titles = [], results } = await gateway.request("sessions.search", { query, limit: MAX_RESULTS, own: true });
      if (requestNumber === lastRequest) renderResults(query, [...titles, ...results]);
    } catch (error) {
      if (requestNumber !== lastRequest) return;
      clear();
      setText(byId("found-note"), fill(texts.searchFailed, describeError(error, texts)));
    }
  }

  function clear() {
    list.replaceChildren();
    delete list.dataset.query;
  }

  function renderResults(query, results) {
    list.dataset.query = query;
    list.replaceChildren(...results.map(createResult));
    const manyText = results.length === MAX_RESULTS ? texts.foundMost : texts.foundMany;
    const summary = { 0: texts.foundNothing, 1: texts.foundOne }[results.length] ?? fill(manyText, results.length);
    setText(byId("found-note"), summary);
    app.announce(summary);
  }

  function createResult({ sessionKey, title, messageId, role, sender, snippet, matches, timestamp }) {
    const element = cloneTemplate("found-row");
    element.querySelector("a").href = app.urlFor(sessionKey, messageId);
    const name = element.querySelector(".name");
    const text = element.querySelector(".snippet");
    const time = element.querySelector("time");
    time.title = formatFullTime(timestamp);
    if (messageId) {
      name.textContent = getTitle({ key: sessionKey, displayName: title }, texts);
      text.append(...highlight(snippet, matches));
      const author = role !== "user" ? texts.byAgent : sender === app.username ? texts.byYou : sender;
      time.textContent = [author, formatDate(timestamp)].filter(Boolean).join(" · ");
    } else {
      name.append(...highlight(snippet, matches)); // the title matched
      text.hidden = true;
      time.textContent = formatDate(timestamp);
    }
    return element;
  }
}

/** Return text with the given ranges in <mark>, as nodes and never as HTML. */
export function highlight(text, ranges) {
  const parts = [];
  let from = 0;
  for (const [start, end] of ranges) {
    parts.push(text.slice(from, start));
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    parts.push(mark);
    from = end;
  }
  return [...parts, text.slice(from)].filter(Boolean);
}
