/** The details pane: agent and model, usage, the last run, and facts about the session. */

import { setText } from "../../shared/elements.js";
import { formatCount, formatFullTime, formatMoney, formatShortCount, formatTime } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { copyText } from "../markdown/decorations.js";
import { startMembersSection } from "./members_section.js";
import { startModelFields } from "./model_fields.js";
import { startRunTimeline } from "./run_timeline.js";
import { startSubagents } from "./subagents.js";

const STORAGE_KEY = "clawsite-details"; // whether the pane is open, per browser

export function startDetailsPane(app) {
  const { gateway, texts } = app;
  const pane = document.getElementById("details");
  const fact = (name) => pane.querySelector(`[data-fact=${name}]`);
  const wide = matchMedia("(min-width: 62rem)");
  let known = { messages: 0, older: false, last: null }; // about the current session, from its messages

  app.details = { isOpen: () => pane.classList.contains("open") };
  const models = startModelFields(app);
  startMembersSection(app);
  startRunTimeline(app);
  startSubagents(app);

  app.on("pane", ({ name, open }) => {
    if (name !== "details") return;
    if (wide.matches) localStorage.setItem(STORAGE_KEY, String(open));
    draw();
  });
  app.on("session", ({ same }) => {
    if (same) return;
    known = { messages: 0, older: false, last: null };
    draw();
  });
  app.on("history", ({ messages, nextCursor }) => {
    const chatMessages = messages.filter(({ role }) => role === "user" || role === "assistant");
    known = { messages: chatMessages.length, older: nextCursor != null, last: messages.findLast(({ usage }) => usage) ?? null };
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
  document.getElementById("copy-key").addEventListener("click", () => copyText(app, app.sessions.getCurrent().key));
  if (wide.matches && localStorage.getItem(STORAGE_KEY) === "true") app.togglePane("details", true);

  function draw() {
    if (!app.details.isOpen()) return;
    const row = app.sessions.getCurrent();
    drawContext();
    show("input", row.inputTokens, (tokens) => fill(texts.tokensOnly, formatCount(tokens)));
    show("output", row.outputTokens, (tokens) => fill(texts.tokensOnly, formatCount(tokens)));
    show("cost", row.costUsd, formatMoney);
    show("created", row.createdAt, formatTime);
    fact("created").title = row.createdAt ? formatFullTime(row.createdAt) : "";
    show("messages", known.messages, (number) => (known.older ? fill(texts.atLeast, formatCount(number)) : formatCount(number)));
    show("owner", row.owner?.actor.label, String);
    show("key", row.key, String);
    drawOrigin(row.forkedFrom);
  }

  /** Hide facts that are not known. */
  function show(name, value, format) {
    setText(fact(name), value === undefined || value === null ? "" : format(value));
    fact(name).closest("div").hidden = fact(name).hidden;
  }

  /** Context used by the last request. Its input and output will both be part of the next request. */
  function drawContext() {
    const { usage, model, provider } = known.last ?? {};
    const used = usage ? usage.input + usage.output : 0;
    const window = models.find(`${provider}/${model}`)?.contextWindow ?? (known.last ? null : models.chosen()?.contextWindow);
    const percent = window ? Math.min(100, Math.round((used / window) * 100)) : 0;
    const meter = pane.querySelector(".meter");
    const usageText = window ? fill(texts.ofContext, formatShortCount(used), formatShortCount(window)) : fill(texts.tokensOnly, formatCount(used));
    pane.querySelector("#context .value").textContent = usageText;
    meter.hidden = !window;
    meter.setAttribute("aria-valuenow", String(percent));
    meter.setAttribute("aria-valuetext", usageText);
    meter.dataset.level = percent >= 90 ? "full" : percent >= 70 ? "high" : "";
    meter.firstElementChild.style.width = `${Math.max(percent, used ? 1 : 0)}%`;
  }

  /** The row has the ID of the original; its key is in the list or known to the server. */
  async function drawOrigin(id) {
    const link = fact("forked").querySelector("a");
    fact("forked").closest("div").hidden = !id;
    if (!id || link.dataset.id === id) return;
    link.dataset.id = id;
    const listed = app.sessions.rows().find((row) => row.id === id);
    const key = listed?.key ?? (await gateway.request("sessions.resolve", { sessionId: id }).catch(() => null))?.key;
    fact("forked").closest("div").hidden = !key; // deleted
    if (!key) return;
    link.href = app.urlFor(key);
    link.textContent = listed ? app.sessions.getTitle(listed) : key;
  }
}
