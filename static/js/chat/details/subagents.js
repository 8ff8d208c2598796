/** The conversations that this one's agent has started, as a tree. */

import { copyOf } from "../../shared/elements.js";
import { markOf } from "../sessions/row.js";

const DEEPEST = 4;
const CALM_MS = 300;

export function startSubagents(app) {
  const { gateway, words } = app;
  const section = document.getElementById("subagent-section");
  const root = document.getElementById("subagents");
  let timer = null;
  let asked = 0;

  app.on("session", () => {
    section.hidden = true;
    soon();
  });
  app.on("pane", ({ name, open }) => name === "details" && open && soon());
  app.on("connection", ({ name }) => name === "ready" && soon());
  app.on("event", ({ name, payload }) => {
    const begunOrEnded = ["accepted", "start", "waiting", "end", "error"].includes(payload.data?.phase);
    if (name === "sessions.changed" || (begunOrEnded && isBelow(payload.sessionKey))) soon();
  });

  const isBelow = (key) => /:subagent:/.test(key ?? "");

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(draw, CALM_MS);
  }

  async function draw() {
    if (!app.details.isOpen() || !gateway.ready) return;
    const number = ++asked;
    const items = await branches(app.sessions.shown().key, 1).catch(() => null);
    if (number !== asked || !items) return;
    root.replaceChildren(...items);
    section.hidden = !items.length;
  }

  async function branches(key, depth) {
    const { sessions } = await gateway.request("sessions.list", { spawnedBy: key, limit: 50 });
    return Promise.all(sessions.filter((row) => row.key !== key && isBelow(row.key)).map((row) => branch(row, depth)));
  }

  async function branch(row, depth) {
    const item = copyOf("subagent");
    const mark = markOf({ ...row, unread: false }, words);
    item.querySelector("a").href = app.address(row.key);
    item.querySelector(".name").textContent = app.sessions.titleOf(row);
    item.querySelector(".state").textContent = mark?.[1] ?? words.stepDone;
    item.dataset.mark = mark?.[0] ?? "";
    const children = depth < DEEPEST ? await branches(row.key, depth + 1) : [];
    if (children.length) {
      const list = document.createElement("ul");
      list.append(...children);
      item.append(list);
    }
    return item;
  }
}
