/** The subagent sessions of the current session, as a tree. */

import { cloneTemplate } from "../../shared/elements.js";
import { getStatusMark } from "../sessions/row.js";

const MAX_DEPTH = 4;
const DEBOUNCE_MS = 300;

export function startSubagents(app) {
  const { gateway, texts } = app;
  const section = document.getElementById("subagent-section");
  const root = document.getElementById("subagents");
  let timer = null;
  let lastRequest = 0;

  app.on("session", () => {
    section.hidden = true;
    refreshSoon();
  });
  app.on("pane", ({ name, open }) => name === "details" && open && refreshSoon());
  app.on("connection", ({ name }) => name === "ready" && refreshSoon());
  app.on("event", ({ name, payload }) => {
    const changesStatus = ["accepted", "start", "waiting", "end", "error"].includes(payload.data?.phase);
    if (name === "sessions.changed" || (changesStatus && isSubagentKey(payload.sessionKey))) refreshSoon();
  });

  const isSubagentKey = (key) => /:subagent:/.test(key ?? "");

  function refreshSoon() {
    clearTimeout(timer);
    timer = setTimeout(render, DEBOUNCE_MS);
  }

  async function render() {
    if (!app.details.isOpen() || !gateway.ready) return;
    const requestNumber = ++lastRequest;
    const items = await renderChildren(app.sessions.getCurrent().key, 1).catch(() => null);
    if (requestNumber !== lastRequest || !items) return;
    root.replaceChildren(...items);
    section.hidden = !items.length;
  }

  async function renderChildren(key, depth) {
    const { sessions } = await gateway.request("sessions.list", { spawnedBy: key, limit: 50 });
    return Promise.all(sessions.filter((row) => row.key !== key && isSubagentKey(row.key)).map((row) => renderSession(row, depth)));
  }

  async function renderSession(row, depth) {
    const item = cloneTemplate("subagent");
    const mark = getStatusMark({ ...row, unread: false }, texts);
    item.querySelector("a").href = app.urlFor(row.key);
    item.querySelector(".name").textContent = app.sessions.getTitle(row);
    item.querySelector(".state").textContent = mark?.[1] ?? texts.stepDone;
    item.dataset.mark = mark?.[0] ?? "";
    const children = depth < MAX_DEPTH ? await renderChildren(row.key, depth + 1) : [];
    if (children.length) {
      const list = document.createElement("ul");
      list.append(...children);
      item.append(list);
    }
    return item;
  }
}
