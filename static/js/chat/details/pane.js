/** The pane at the right: who answers and how, what it costs, what the last run did, and the facts of the conversation. */

import { put } from "../../shared/elements.js";
import { count, longTime, money, shortCount, shortTime } from "../../shared/formats.js";
import { startModelChoice } from "./model_fields.js";
import { startPeopleSection } from "./members_section.js";
import { copyText } from "../markdown/decorations.js";
import { startRunTimeline } from "./run_timeline.js";
import { startSubagents } from "./subagents.js";
import { fill } from "../../shared/texts.js";

const KEPT = "clawsite-details"; // whether the pane is open, in this browser

export function startDetails(app) {
  const { gateway, words } = app;
  const pane = document.getElementById("details");
  const fact = (name) => pane.querySelector(`[data-fact=${name}]`);
  const wide = matchMedia("(min-width: 62rem)");
  let known = { messages: 0, older: false, last: null }; // of the shown conversation, from its messages

  app.details = { isOpen: () => pane.classList.contains("open") };
  const models = startModelChoice(app);
  startPeopleSection(app);
  startRunTimeline(app);
  startSubagents(app);

  app.on("pane", ({ name, open }) => {
    if (name !== "details") return;
    if (wide.matches) localStorage.setItem(KEPT, String(open));
    draw();
  });
  app.on("session", ({ same }) => {
    if (same) return;
    known = { messages: 0, older: false, last: null };
    draw();
  });
  app.on("history", ({ messages, nextCursor }) => {
    const said = messages.filter(({ role }) => role === "user" || role === "assistant");
    known = { messages: said.length, older: nextCursor != null, last: messages.findLast(({ usage }) => usage) ?? null };
    draw();
  });
  app.on("event", ({ name, payload }) => {
    if (name !== "agent" || payload.sessionKey !== app.feed.sessionKey) return;
    const { stream, data } = payload;
    if (stream === "assistant" && data.final) {
      known.messages += 1;
      if (data.message?.usage) known.last = data.message;
    } else if (data.phase === "accepted") known.messages += 1;
    else return;
    draw();
  });
  app.on("sessions", draw);
  app.on("models", draw);
  document.getElementById("close-details").addEventListener("click", () => app.togglePane("details", false));
  document.getElementById("copy-key").addEventListener("click", () => copyText(app, app.sessions.shown().key));
  if (wide.matches && localStorage.getItem(KEPT) === "true") app.togglePane("details", true);

  function draw() {
    if (!app.details.isOpen()) return;
    const row = app.sessions.shown();
    drawContext();
    show("input", row.inputTokens, (tokens) => fill(words.tokensOnly, count(tokens)));
    show("output", row.outputTokens, (tokens) => fill(words.tokensOnly, count(tokens)));
    show("cost", row.costUsd, money);
    show("created", row.createdAt, shortTime);
    fact("created").title = row.createdAt ? longTime(row.createdAt) : "";
    show("messages", known.messages, (number) => (known.older ? fill(words.atLeast, count(number)) : count(number)));
    show("owner", row.owner?.actor.label, String);
    show("key", row.key, String);
    drawForked(row.forkedFrom);
  }

  /** A fact that is not known takes no room. */
  function show(name, value, written) {
    put(fact(name), value === undefined || value === null ? "" : written(value));
    fact(name).closest("div").hidden = fact(name).hidden;
  }

  /** The last request: what the model was sent and what it wrote will both be sent with the next. */
  function drawContext() {
    const { usage, model, provider } = known.last ?? {};
    const used = usage ? usage.input + usage.output : 0;
    const window = models.find(`${provider}/${model}`)?.contextWindow ?? (known.last ? null : models.chosen()?.contextWindow);
    const percent = window ? Math.min(100, Math.round((used / window) * 100)) : 0;
    const meter = pane.querySelector(".meter");
    const told = window ? fill(words.ofContext, shortCount(used), shortCount(window)) : fill(words.tokensOnly, count(used));
    pane.querySelector("#context .value").textContent = told;
    meter.hidden = !window;
    meter.setAttribute("aria-valuenow", String(percent));
    meter.setAttribute("aria-valuetext", told);
    meter.dataset.level = percent >= 90 ? "full" : percent >= 70 ? "high" : "";
    meter.firstElementChild.style.width = `${Math.max(percent, used ? 1 : 0)}%`;
  }

  /** The row names its origin by an id; its key is in the list, or the server knows it. */
  async function drawForked(id) {
    const link = fact("forked").querySelector("a");
    fact("forked").closest("div").hidden = !id;
    if (!id || link.dataset.id === id) return;
    link.dataset.id = id;
    const listed = app.sessions.rows().find((row) => row.id === id);
    const key = listed?.key ?? (await gateway.request("sessions.resolve", { sessionId: id }).catch(() => null))?.key;
    fact("forked").closest("div").hidden = !key; // it was deleted
    if (!key) return;
    link.href = app.address(key);
    link.textContent = listed ? app.sessions.titleOf(listed) : key;
  }
}
