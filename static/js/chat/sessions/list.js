/**
 * The conversations at the left: in groups, the shown one marked, in step with what other windows and the agents do.
 *
 * Others use `app.sessions`: rows(), find(key), shown(), titleOf(row), agents, step(by), plus what actions.js can do;
 * and hear "sessions" when something in it has changed.
 */

import { startAgentChoice } from "./agent_menu.js";
import { copyOf, put } from "../../shared/elements.js";
import { ageOf } from "./dates.js";
import { startReadMarks } from "./read_marks.js";
import { sessionActs } from "./actions.js";
import { startSessionKeys } from "./shortcuts.js";
import { startSessionMenu } from "./menu.js";
import { agentOf, isForeign, isSubagent, SessionRow, titleOf } from "./row.js";
import { startSearch } from "./search.js";
import { SessionStore } from "./store.js";
import { fill, reason } from "../../shared/texts.js";

const GROUPS = ["pinned", "today", "yesterday", "week", "older", "archived"];
const CALM_MS = 150; // between a change and asking for the list: a run that begins tells of several
const STATUS = { accepted: "queued", start: "running", resume: "running", rescued: "running", waiting: "waiting", end: null, error: null };

export function startSessionList(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const root = at("session-list");
  const more = at("more-sessions");
  const current = new SessionStore({ gateway, onChange: change });
  const archive = new SessionStore({ gateway, archived: true, onChange: change });
  const drawn = new Map(); // key → SessionRow
  const groups = new Map(GROUPS.map((name) => [name, group(name)]));
  let shownKey = null;
  let activeKey = null; // where Tab enters the list
  let inArchive = false;
  let timer = null;
  let waiting = false;

  const store = () => (inArchive ? archive : current);
  const find = (key) => current.find(key) ?? archive.find(key);
  app.sessions = {
    agents: [],
    find,
    rows: () => current.ordered().filter(isListed),
    shown: () => find(shownKey) ?? { key: shownKey },
    titleOf: (row) => titleOf(row, words),
    defaults: () => current.defaults,
    step,
    refresh: () => soon(),
    expectRead: (key, asking) => (current.find(key) ? current.expect(key, { unread: false }, asking) : asking).catch(() => {}),
  };
  const acts = Object.assign(app.sessions, sessionActs(app, { current, archive, rowOf, leaveArchive: () => showArchive(false) }));
  startAgentChoice(app);
  startSessionMenu(app, { root, acts });
  startSessionKeys(app, { root, acts, activate });
  startSearch(app);
  startReadMarks(app);

  app.on("session", ({ key }) => {
    shownKey = activeKey = key;
    change();
    locate();
  });
  app.on("connection", ({ name }) => name === "ready" && refresh().then(locate));
  app.on("event", ({ name, payload }) => hear(name, payload));
  document.addEventListener("visibilitychange", change); // what is read, and what is today
  at("show-archive").addEventListener("click", () => showArchive(true));
  at("leave-archive").addEventListener("click", () => showArchive(false));
  more.addEventListener("click", page);
  const nearEnd = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && page(), {
    root: at("sessions").querySelector(".scroller"),
    rootMargin: "600px",
  });
  nearEnd.observe(more);

  /** What a list shows of a run is told by the run's own events, at once; order and last words are asked for. */
  function hear(name, payload) {
    const { sessionKey: key, data, stream, reason: what } = payload;
    if (name === "sessions.changed") {
      if (what === "deleted") [current, archive].forEach((each) => each.find(key)?.sessionId === payload.sessionId && each.remove(key));
      touched(payload);
    } else if (name === "session") {
      touched(payload);
    } else if (name === "agent" && stream === "lifecycle" && data.phase in STATUS) {
      const ended = STATUS[data.phase] === null;
      touched(payload, { status: STATUS[data.phase], waitingFor: data.reason ?? null, ...(ended && { unread: true }) });
    }
  }

  /** Keys are unique among one's own only: what is told of a conversation of somebody else's changes nothing here. */
  function touched({ sessionKey, sessionId }, changes) {
    for (const each of [current, archive]) each.told(sessionKey, each.find(sessionKey)?.sessionId === sessionId ? changes : {});
    soon();
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, CALM_MS);
  }

  async function refresh() {
    const known = find(shownKey);
    await attempt(Promise.all([current.refresh(), archive.loaded || inArchive ? archive.refresh() : null]));
    if (known && !find(shownKey)) locate(); // archived in another window
  }

  async function page() {
    await attempt(store().more());
    nearEnd.unobserve(more); // asked anew, it tells again whether the end is near
    nearEnd.observe(more);
  }

  /** The connection's own trouble is told elsewhere, and the next one asks again. */
  async function attempt(asking) {
    try {
      await asking;
      put(at("list-note"), "");
    } catch (error) {
      if (error.code !== "DISCONNECTED" && error.details?.code !== "MISSING_SCOPE") put(at("list-note"), fill(words.listFailed, reason(words, error)));
    }
  }

  /** The address may name a conversation further down than the list goes, or an archived one. */
  async function locate() {
    const key = shownKey;
    if (!current.loaded || find(key) || !gateway.ready) return;
    if (!current.complete) await attempt(current.lookUp(key));
    if (!find(key) && key === shownKey && !acts.isNew(key)) await attempt(archive.lookUp(key));
  }

  function showArchive(open) {
    if (open === inArchive) return;
    inArchive = open;
    at("archive-head").hidden = !open;
    at("show-archive").hidden = open;
    change();
    if (open) attempt(archive.refresh());
    at(open ? "leave-archive" : "show-archive").focus();
  }

  function activate(key) {
    activeKey = key;
    change();
  }

  /** To the next conversation of the list, or with -1 to the one before. */
  function step(by) {
    const keys = listed().map(({ key }) => key);
    const next = keys[keys.indexOf(shownKey) + by];
    if (next) app.open(next);
  }

  /** The element of a row that is, or now becomes, part of the list. */
  function rowOf(key) {
    showArchive(!current.find(key) && Boolean(archive.find(key)));
    draw();
    return drawn.get(key);
  }

  /** Drawn once for all that changes in one go. */
  function change() {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      draw();
      app.emit("sessions");
    });
  }

  /** A conversation that nobody has written in yet is on no server. */
  function listed() {
    const rows = store().ordered().filter(isListed);
    const unwritten = !inArchive && current.loaded && shownKey && !isForeign(shownKey) && !find(shownKey);
    return unwritten ? [...rows.filter(({ pinned }) => pinned), { key: shownKey }, ...rows.filter(({ pinned }) => !pinned)] : rows;
  }

  /** Agents' helpers are shown with the conversation that they help (chat/details/subagents.js). */
  function isListed({ key }) {
    return !isSubagent(key) || key === shownKey;
  }

  function draw() {
    const rows = listed();
    const members = new Map(GROUPS.map((name) => [name, []]));
    if (!rows.some(({ key }) => key === activeKey)) activeKey = rows[0]?.key ?? null;
    for (const row of rows) members.get(groupOf(row)).push(shownRow(row));
    const keys = new Set(rows.map(({ key }) => key));
    for (const key of drawn.keys()) if (!keys.has(key)) forget(key);
    for (const [name, elements] of members) fit(groups.get(name), elements);
    const { loaded, complete } = store();
    at("list-skeleton").hidden = loaded;
    more.hidden = !loaded || complete;
    if (inArchive && loaded) put(at("list-note"), rows.length ? "" : words.noArchived);
    else if (at("list-note").textContent === words.noArchived) put(at("list-note"), "");
    if (current.loaded) app.setTitle(titleOf(app.sessions.shown(), words));
  }

  function groupOf({ pinned, updatedAt }) {
    if (inArchive) return "archived";
    return pinned ? "pinned" : updatedAt ? ageOf(updatedAt) : "today";
  }

  function shownRow(row) {
    if (!drawn.has(row.key)) drawn.set(row.key, new SessionRow(app, row.key));
    const view = drawn.get(row.key);
    const agent = app.sessions.agents.length > 1 ? app.sessions.agents.find(({ id }) => id === agentOf(row) && id !== "main") : null;
    view.show(row, { current: row.key === shownKey, active: row.key === activeKey, agentName: agent?.name ?? "" });
    return view.element;
  }

  function forget(key) {
    const { element } = drawn.get(key);
    const focused = element.contains(document.activeElement);
    const rows = [...root.querySelectorAll("li")]; // over all groups: what is alone in its own has neighbours too
    const neighbour = rows[rows.indexOf(element) + 1] ?? rows[rows.indexOf(element) - 1];
    element.remove();
    drawn.delete(key);
    if (focused) (neighbour ?? root).querySelector("a")?.focus();
  }

  function group(name) {
    const section = copyOf("session-group");
    section.querySelector("h2").id = `group-${name}`;
    section.querySelector("ul").setAttribute("aria-labelledby", `group-${name}`);
    put(section.querySelector("h2"), words[`group${name.charAt(0).toUpperCase()}${name.slice(1)}`] ?? "");
    root.append(section);
    return section;
  }
}

/** Bring the list's children into this order, and move only those that are elsewhere. */
function fit(section, elements) {
  const list = section.querySelector("ul");
  section.hidden = !elements.length;
  elements.forEach((element, place) => {
    const there = list.children[place];
    if (there === element) return;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    list.insertBefore(element, there ?? null);
    focused?.focus({ preventScroll: true }); // moving takes it away
  });
}
