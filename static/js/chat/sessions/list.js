/**
 * The session list: grouped, with the current session marked, kept in sync with other windows and agents.
 *
 * Provides `app.sessions`: rows(), find(key), getCurrent(), getTitle(row), agents, step(by), and the actions of actions.js.
 * Emits "sessions" on changes.
 */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeError, fill } from "../../shared/texts.js";
import { createSessionActions } from "./actions.js";
import { startAgentMenu } from "./agent_menu.js";
import { getDateGroup } from "./dates.js";
import { startSessionMenu } from "./menu.js";
import { startReadMarks } from "./read_marks.js";
import { getAgentId, getTitle, isSharedWithMe, isSubagent, SessionRow } from "./row.js";
import { startSearch } from "./search.js";
import { startSessionShortcuts } from "./shortcuts.js";
import { SessionStore } from "./store.js";

const GROUPS = ["pinned", "today", "yesterday", "week", "older", "archived"];
const DEBOUNCE_MS = 150; // a starting run causes several changes
const STATUS = {
  accepted: "queued",
  start: "running",
  resume: "running",
  rescued: "running",
  waiting: "waiting",
  end: null,
  error: null,
};

export function startSessionList(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const root = byId("session-list");
  const moreButton = byId("more-sessions");
  const current = new SessionStore({ gateway, onChange: renderSoon });
  const archive = new SessionStore({ gateway, archived: true, onChange: renderSoon });
  const rowViews = new Map(); // key → SessionRow
  const groups = new Map(GROUPS.map((name) => [name, createGroup(name)]));
  let currentKey = null;
  let activeKey = null; // the row that Tab focuses
  let isArchiveShown = false;
  let timer = null;
  let isRenderQueued = false;

  const getStore = () => (isArchiveShown ? archive : current);
  const find = (key) => current.find(key) ?? archive.find(key);
  app.sessions = {
    agents: [],
    find,
    rows: () => current.ordered().filter(isListed),
    getCurrent: () => find(currentKey) ?? { key: currentKey },
    getTitle: (row) => getTitle(row, texts),
    defaults: () => current.defaults,
    step,
    refresh: () => refreshSoon(),
    markRead(key, request) {
      const work = current.find(key) ? current.applyOptimistically(key, { unread: false }, request) : request;
      return work.catch(() => {});
    },
  };
  const actions = Object.assign(
    app.sessions,
    createSessionActions(app, { current, archive, getRowView, leaveArchive: () => showArchive(false) }),
  );
  startAgentMenu(app);
  startSessionMenu(app, { root, actions });
  startSessionShortcuts(app, { root, actions, activate });
  startSearch(app);
  startReadMarks(app);

  app.on("session", ({ key }) => {
    currentKey = activeKey = key;
    renderSoon();
    lookUpCurrent();
  });
  app.on("connection", ({ name }) => name === "ready" && refresh().then(lookUpCurrent));
  app.on("event", ({ name, payload }) => handleEvent(name, payload));
  document.addEventListener("visibilitychange", renderSoon); // read state and date groups may have changed
  byId("show-archive").addEventListener("click", () => showArchive(true));
  byId("leave-archive").addEventListener("click", () => showArchive(false));
  moreButton.addEventListener("click", loadMore);
  const endObserver = new IntersectionObserver(([{ isIntersecting }]) => isIntersecting && loadMore(), {
    root: byId("sessions").querySelector(".scroller"),
    rootMargin: "600px",
  });
  endObserver.observe(moreButton);

  /** Run events update the status immediately; order and previews are requested from the server. */
  function handleEvent(name, payload) {
    const { sessionKey: key, data, stream, reason } = payload;
    if (name === "sessions.changed") {
      if (reason === "deleted") {
        [current, archive].forEach((store) => store.find(key)?.sessionId === payload.sessionId && store.remove(key));
      }
      markChanged(payload);
    } else if (name === "session") {
      markChanged(payload);
    } else if (name === "agent" && stream === "lifecycle" && data.phase in STATUS) {
      const ended = STATUS[data.phase] === null;
      markChanged(payload, { status: STATUS[data.phase], waitingFor: data.reason ?? null, ...(ended && { unread: true }) });
    }
  }

  /** Keys are only unique per owner: events about a session of another owner with the same key change nothing. */
  function markChanged({ sessionKey, sessionId }, changes) {
    for (const store of [current, archive]) {
      store.markChanged(sessionKey, store.find(sessionKey)?.sessionId === sessionId ? changes : {});
    }
    refreshSoon();
  }

  function refreshSoon() {
    clearTimeout(timer);
    timer = setTimeout(refresh, DEBOUNCE_MS);
  }

  async function refresh() {
    const wasListed = find(currentKey);
    await reportListErrors(Promise.all([current.refresh(), archive.loaded || isArchiveShown ? archive.refresh() : null]));
    if (wasListed && !find(currentKey)) lookUpCurrent(); // archived in another window
  }

  async function loadMore() {
    await reportListErrors(getStore().loadMore());
    endObserver.unobserve(moreButton); // observing again reports whether the end is still near
    endObserver.observe(moreButton);
  }

  /** Connection errors are shown elsewhere, and reconnecting retries. */
  async function reportListErrors(request) {
    try {
      await request;
      setText(byId("list-note"), "");
    } catch (error) {
      if (error.code !== "DISCONNECTED" && error.details?.code !== "MISSING_SCOPE") {
        setText(byId("list-note"), fill(texts.listFailed, describeError(error, texts)));
      }
    }
  }

  /** Load the session named in the URL if it is archived or beyond the loaded pages. */
  async function lookUpCurrent() {
    const key = currentKey;
    if (!current.loaded || find(key) || !gateway.ready) return;
    if (!current.complete) await reportListErrors(current.lookUp(key));
    if (!find(key) && key === currentKey && !actions.isNew(key)) await reportListErrors(archive.lookUp(key));
  }

  function showArchive(open) {
    if (open === isArchiveShown) return;
    isArchiveShown = open;
    byId("archive-head").hidden = !open;
    byId("show-archive").hidden = open;
    renderSoon();
    if (open) reportListErrors(archive.refresh());
    byId(open ? "leave-archive" : "show-archive").focus();
  }

  function activate(key) {
    activeKey = key;
    renderSoon();
  }

  /** Open the next (1) or previous (-1) session of the list. */
  function step(offset) {
    const keys = getListedRows().map(({ key }) => key);
    const next = keys[keys.indexOf(currentKey) + offset];
    if (next) app.open(next);
  }

  /** Get the row of a session, switching to the archive if needed. */
  function getRowView(key) {
    showArchive(!current.find(key) && Boolean(archive.find(key)));
    render();
    return rowViews.get(key);
  }

  /** Render once for all changes in the same task. */
  function renderSoon() {
    if (isRenderQueued) return;
    isRenderQueued = true;
    queueMicrotask(() => {
      isRenderQueued = false;
      render();
      app.emit("sessions");
    });
  }

  /** The rows to list, including a new session, which is not on the server before its first message. */
  function getListedRows() {
    const rows = getStore().ordered().filter(isListed);
    const isUnsaved = !isArchiveShown && current.loaded && currentKey && !isSharedWithMe(currentKey) && !find(currentKey);
    return isUnsaved
      ? [...rows.filter(({ pinned }) => pinned), { key: currentKey }, ...rows.filter(({ pinned }) => !pinned)]
      : rows;
  }

  /** Subagent sessions are listed with their parent (chat/details/subagents.js). */
  function isListed({ key }) {
    return !isSubagent(key) || key === currentKey;
  }

  function render() {
    const rows = getListedRows();
    const elementsByGroup = new Map(GROUPS.map((name) => [name, []]));
    if (!rows.some(({ key }) => key === activeKey)) activeKey = rows[0]?.key ?? null;
    for (const row of rows) elementsByGroup.get(getGroup(row)).push(updateRow(row));
    const keys = new Set(rows.map(({ key }) => key));
    for (const key of rowViews.keys()) if (!keys.has(key)) removeRow(key);
    for (const [name, elements] of elementsByGroup) reorder(groups.get(name), elements);
    const { loaded, complete } = getStore();
    byId("list-skeleton").hidden = loaded;
    moreButton.hidden = !loaded || complete;
    if (isArchiveShown && loaded) setText(byId("list-note"), rows.length ? "" : texts.noArchived);
    else if (byId("list-note").textContent === texts.noArchived) setText(byId("list-note"), "");
    if (current.loaded) app.setTitle(getTitle(app.sessions.getCurrent(), texts));
  }

  function getGroup({ pinned, updatedAt }) {
    if (isArchiveShown) return "archived";
    return pinned ? "pinned" : updatedAt ? getDateGroup(updatedAt) : "today";
  }

  function updateRow(row) {
    if (!rowViews.has(row.key)) rowViews.set(row.key, new SessionRow(app, row.key));
    const view = rowViews.get(row.key);
    const agent = app.sessions.agents.length > 1
      ? app.sessions.agents.find(({ id }) => id === getAgentId(row) && id !== "main")
      : null;
    view.show(row, { current: row.key === currentKey, active: row.key === activeKey, agentName: agent?.name ?? "" });
    return view.element;
  }

  function removeRow(key) {
    const { element } = rowViews.get(key);
    const focused = element.contains(document.activeElement);
    const rows = [...root.querySelectorAll("li")]; // across groups: the only row of a group has neighbors too
    const neighbor = rows[rows.indexOf(element) + 1] ?? rows[rows.indexOf(element) - 1];
    element.remove();
    rowViews.delete(key);
    if (focused) (neighbor ?? root).querySelector("a")?.focus();
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

/** Put the elements in this order, moving only those that are out of place. */
function reorder(section, elements) {
  const list = section.querySelector("ul");
  section.hidden = !elements.length;
  elements.forEach((element, index) => {
    const existing = list.children[index];
    if (existing === element) return;
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    list.insertBefore(element, existing ?? null);
    focused?.focus({ preventScroll: true }); // moving an element removes its focus
  });
}
