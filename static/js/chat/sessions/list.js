/**
 * The session list: grouped, with the current session marked, kept in sync with other windows and agents.
 *
 * Provides `app.sessions`: rows(), find(key), shown(), getTitle(row), agents, step(by), and the actions of actions.js. Emits "sessions" on
 * changes.
 */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeError, fill } from "../../shared/texts.js";
import { createSessionActions } from "./actions.js";
import { startAgentMenu } from "./agent_menu.js";
import { getDateGroup } from "./dates.js";
import { startSessionMenu } from "./menu.js";
import { startReadMarks } from "./read_marks.js";
import { getAgentId, getTitle, isForeign, isSubagent, SessionRow } from "./row.js";
import { startSearch } from "./search.js";
import { startSessionShortcuts } from "./shortcuts.js";
import { SessionStore } from "./store.js";

const GROUPS = ["pinned", "today", "yesterday", "week", "older", "archived"];
const DEBOUNCE_MS = 150; // a starting run causes several changes
const STATUS = { accepted: "queued", start: "running", resume: "running", rescued: "running", waiting: "waiting", end: null, error: null };

export function startSessionList(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const root = byId("session-list");
  const more = byId("more-sessions");
  const current = new SessionStore({ gateway, onChange: drawSoon });
  const archive = new SessionStore({ gateway, archived: true, onChange: drawSoon });
  const rowViews = new Map(); // key → SessionRow
  const groups = new Map(GROUPS.map((name) => [name, createGroup(name)]));
  let shownKey = null;
  let activeKey = null; // the row that Tab focuses
  let inArchive = false;
  let timer = null;
  let isDrawQueued = false;

  const store = () => (inArchive ? archive : current);
  const find = (key) => current.find(key) ?? archive.find(key);
  app.sessions = {
    agents: [],
    find,
    rows: () => current.ordered().filter(isListed),
    shown: () => find(shownKey) ?? { key: shownKey },
    getTitle: (row) => getTitle(row, texts),
    defaults: () => current.defaults,
    step,
    refresh: () => refreshSoon(),
    expectRead: (key, request) => (current.find(key) ? current.expect(key, { unread: false }, request) : request).catch(() => {}),
  };
  const actions = Object.assign(app.sessions, createSessionActions(app, { current, archive, rowOf, leaveArchive: () => showArchive(false) }));
  startAgentMenu(app);
  startSessionMenu(app, { root, actions });
  startSessionShortcuts(app, { root, actions, activate });
  startSearch(app);
  startReadMarks(app);

  app.on("session", ({ key }) => {
    shownKey = activeKey = key;
    drawSoon();
    locate();
  });
  app.on("connection", ({ name }) => name === "ready" && refresh().then(locate));
  app.on("event", ({ name, payload }) => handleEvent(name, payload));
  document.addEventListener("visibilitychange", drawSoon); // read state and date groups may have changed
  byId("show-archive").addEventListener("click", () => showArchive(true));
  byId("leave-archive").addEventListener("click", () => showArchive(false));
  more.addEventListener("click", loadMore);
  const nearEnd = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && loadMore(), {
    root: byId("sessions").querySelector(".scroller"),
    rootMargin: "600px",
  });
  nearEnd.observe(more);

  /** Run events update the status immediately; order and previews are requested. */
  function handleEvent(name, payload) {
    const { sessionKey: key, data, stream, reason } = payload;
    if (name === "sessions.changed") {
      if (reason === "deleted") [current, archive].forEach((each) => each.find(key)?.sessionId === payload.sessionId && each.remove(key));
      markTouched(payload);
    } else if (name === "session") {
      markTouched(payload);
    } else if (name === "agent" && stream === "lifecycle" && data.phase in STATUS) {
      const ended = STATUS[data.phase] === null;
      markTouched(payload, { status: STATUS[data.phase], waitingFor: data.reason ?? null, ...(ended && { unread: true }) });
    }
  }

  /** Keys are only unique per owner: events about a session of another owner with the same key change nothing. */
  function markTouched({ sessionKey, sessionId }, changes) {
    for (const each of [current, archive]) each.markChanged(sessionKey, each.find(sessionKey)?.sessionId === sessionId ? changes : {});
    refreshSoon();
  }

  function refreshSoon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, DEBOUNCE_MS);
  }

  async function refresh() {
    const known = find(shownKey);
    await reportListErrors(Promise.all([current.refresh(), archive.loaded || inArchive ? archive.refresh() : null]));
    if (known && !find(shownKey)) locate(); // archived in another window
  }

  async function loadMore() {
    await reportListErrors(store().more());
    nearEnd.unobserve(more); // observing again reports whether the end is still near
    nearEnd.observe(more);
  }

  /** Connection errors are shown elsewhere, and reconnecting retries. */
  async function reportListErrors(request) {
    try {
      await request;
      setText(byId("list-note"), "");
    } catch (error) {
      if (error.code !== "DISCONNECTED" && error.details?.code !== "MISSING_SCOPE") setText(byId("list-note"), fill(texts.listFailed, describeError(error, texts)));
    }
  }

  /** The URL may name a session beyond the loaded ones, or an archived one. */
  async function locate() {
    const key = shownKey;
    if (!current.loaded || find(key) || !gateway.ready) return;
    if (!current.complete) await reportListErrors(current.lookUp(key));
    if (!find(key) && key === shownKey && !actions.isNew(key)) await reportListErrors(archive.lookUp(key));
  }

  function showArchive(open) {
    if (open === inArchive) return;
    inArchive = open;
    byId("archive-head").hidden = !open;
    byId("show-archive").hidden = open;
    drawSoon();
    if (open) reportListErrors(archive.refresh());
    byId(open ? "leave-archive" : "show-archive").focus();
  }

  function activate(key) {
    activeKey = key;
    drawSoon();
  }

  /** Open the next session of the list, or with -1 the previous one. */
  function step(by) {
    const keys = listed().map(({ key }) => key);
    const next = keys[keys.indexOf(shownKey) + by];
    if (next) app.open(next);
  }

  /** The row of a session, switching to the archive if needed. */
  function rowOf(key) {
    showArchive(!current.find(key) && Boolean(archive.find(key)));
    draw();
    return rowViews.get(key);
  }

  /** Draw once for all changes in the same task. */
  function drawSoon() {
    if (isDrawQueued) return;
    isDrawQueued = true;
    queueMicrotask(() => {
      isDrawQueued = false;
      draw();
      app.emit("sessions");
    });
  }

  /** The rows to list. A session without messages is not on the server yet. */
  function listed() {
    const rows = store().ordered().filter(isListed);
    const unwritten = !inArchive && current.loaded && shownKey && !isForeign(shownKey) && !find(shownKey);
    return unwritten ? [...rows.filter(({ pinned }) => pinned), { key: shownKey }, ...rows.filter(({ pinned }) => !pinned)] : rows;
  }

  /** Subagent sessions are listed with their parent (chat/details/subagents.js). */
  function isListed({ key }) {
    return !isSubagent(key) || key === shownKey;
  }

  function draw() {
    const rows = listed();
    const members = new Map(GROUPS.map((name) => [name, []]));
    if (!rows.some(({ key }) => key === activeKey)) activeKey = rows[0]?.key ?? null;
    for (const row of rows) members.get(getGroup(row)).push(updateRow(row));
    const keys = new Set(rows.map(({ key }) => key));
    for (const key of rowViews.keys()) if (!keys.has(key)) removeRow(key);
    for (const [name, elements] of members) reorder(groups.get(name), elements);
    const { loaded, complete } = store();
    byId("list-skeleton").hidden = loaded;
    more.hidden = !loaded || complete;
    if (inArchive && loaded) setText(byId("list-note"), rows.length ? "" : texts.noArchived);
    else if (byId("list-note").textContent === texts.noArchived) setText(byId("list-note"), "");
    if (current.loaded) app.setTitle(getTitle(app.sessions.shown(), texts));
  }

  function getGroup({ pinned, updatedAt }) {
    if (inArchive) return "archived";
    return pinned ? "pinned" : updatedAt ? getDateGroup(updatedAt) : "today";
  }

  function updateRow(row) {
    if (!rowViews.has(row.key)) rowViews.set(row.key, new SessionRow(app, row.key));
    const view = rowViews.get(row.key);
    const agent = app.sessions.agents.length > 1 ? app.sessions.agents.find(({ id }) => id === getAgentId(row) && id !== "main") : null;
    view.show(row, { current: row.key === shownKey, active: row.key === activeKey, agentName: agent?.name ?? "" });
    return view.element;
  }

  function removeRow(key) {
    const { element } = rowViews.get(key);
    const focused = element.contains(document.activeElement);
    const rows = [...root.querySelectorAll("li")]; // across groups: the only row of a group has neighbors too
    const neighbour = rows[rows.indexOf(element) + 1] ?? rows[rows.indexOf(element) - 1];
    element.remove();
    rowViews.delete(key);
    if (focused) (neighbour ?? root).querySelector("a")?.focus();
  }

  function createGroup(name) {
    const section = cloneTemplate("session-group");
    section.querySelector("h2").id = `group-${name}`;
    section.querySelector("ul").setAttribute("aria-labelledby", `group-${name}`);
    setText(section.querySelector("h2"), texts[`group${name.charAt(0).toUpperCase()}${name.slice(1)}`] ?? "");
    root.append(section);
    return section;
  }
}

/** Reorder the children, moving only those that are out of place. */
function reorder(section, elements) {
  const list = section.querySelector("ul");
  section.hidden = !elements.length;
  elements.forEach((element, index) => {
    const there = list.children[index];
    if (there === element) return;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    list.insertBefore(element, there ?? null);
    focused?.focus({ preventScroll: true }); // moving an element removes its focus
  });
}
