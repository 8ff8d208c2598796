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
  const getFact = (name) => pane.querySelector(`[data-fact=${name}]`);
  const wideScreen = matchMedia("(min-width: 62rem)");
  let stats = { messages: 0, older: false, last: null }; // computed from the loaded messages of the current session

  app.details = { isOpen: () => pane.classList.contains("open") };
  const models = startModelFields(app);
  startMembersSection(app);
  startRunTimeline(app);
  startSubagents(app);

  app.on("pane", ({ name, open }) => {
    if (name !== "details") return;
    if (wideScreen.matches) localStorage.setItem(STORAGE_KEY, String(open));
    render();
  });
  app.on("session", ({ same }) => {
    if (same) return;
    stats = { messages: 0, older: false, last: null };
    render();
  });
  app.on("history", ({ messages, nextCursor }) => {
    const chatMessages = messages.filter(({ role }) => role === "user" || role === "assistant");
    stats = { messages: chatMessages.length, older: nextCursor != null, last: messages.findLast(({ usage }) => usage) ?? null };
    render();
  });
  app.on("event", ({ name, payload }) => {
    if (name !== "agent" || payload.sessionKey !== app.feed.sessionKey) return;
    const { stream, data } = payload;
    if (stream === "assistant" && data.final) {
      stats.messages += 1;
      if (data.message?.usage) stats.last = data.message;
    } else if (data.phase === "accepted") stats.messages += 1;
    else return;
    render();
  });
  app.on("sessions", render);
  app.on("models", render);
  document.getElementById("close-details").addEventListener("click", () => app.togglePane("details", false));
  document.getElementById("copy-key").addEventListener("click", () => copyText(app, app.sessions.getCurrent().key));
  if (wideScreen.matches && localStorage.getItem(STORAGE_KEY) === "true") app.togglePane("details", true);

  function render() {
    if (!app.details.isOpen()) return;
    const row = app.sessions.getCurrent();
    renderContext();
    renderFact("input", row.inputTokens, (tokens) => fill(texts.tokensOnly, formatCount(tokens)));
    renderFact("output", row.outputTokens, (tokens) => fill(texts.tokensOnly, formatCount(tokens)));
    renderFact("cost", row.costUsd, formatMoney);
    renderFact("created", row.createdAt, formatTime);
    getFact("created").title = row.createdAt ? formatFullTime(row.createdAt) : "";
    const formatMessages = (number) => (stats.older ? fill(texts.atLeast, formatCount(number)) : formatCount(number));
    renderFact("messages", stats.messages, formatMessages);
    renderFact("owner", row.owner?.actor.label, String);
    renderFact("key", row.key, String);
    renderOrigin(row.forkedFrom);
  }

  /** Show a fact, or hide its row if the value is unknown. */
  function renderFact(name, value, format) {
    setText(getFact(name), value === undefined || value === null ? "" : format(value));
    getFact(name).closest("div").hidden = getFact(name).hidden;
  }

  /** Show how much of the context window the last request used. Its input and output will both be part of the next request. */
  function renderContext() {
    const { usage, model, provider } = stats.last ?? {};
    const used = usage ? usage.input + usage.output : 0;
    const contextWindow = models.find(`${provider}/${model}`)?.contextWindow
      ?? (stats.last ? null : models.getSelected()?.contextWindow);
    const percent = contextWindow ? Math.min(100, Math.round((used / contextWindow) * 100)) : 0;
    const meter = pane.querySelector(".meter");
    const usageText = contextWindow
      ? fill(texts.ofContext, formatShortCount(used), formatShortCount(contextWindow))
      : fill(texts.tokensOnly, formatCount(used));
    pane.querySelector("#context .value").textContent = usageText;
    meter.hidden = !contextWindow;
    meter.setAttribute("aria-valuenow", String(percent));
    meter.setAttribute("aria-valuetext", usageText);
    meter.dataset.level = percent >= 90 ? "full" : percent >= 70 ? "high" : "";
    meter.firstElementChild.style.width = `${Math.max(percent, used ? 1 : 0)}%`;
  }

  /** Link to the session this one was forked from. Its key is taken from the list or requested from the server. */
  async function renderOrigin(id) {
    const link = getFact("forked").querySelector("a");
    getFact("forked").closest("div").hidden = !id;
    if (!id || link.dataset.id === id) return;
    link.dataset.id = id;
    const listed = app.sessions.rows().find((row) => row.id === id);
    const key = listed?.key ?? (await gateway.request("sessions.resolve", { sessionId: id }).catch(() => null))?.key;
    getFact("forked").closest("div").hidden = !key; // deleted
    if (!key) return;
    link.href = app.urlFor(key);
    link.textContent = listed ? app.sessions.getTitle(listed) : key;
  }
}
