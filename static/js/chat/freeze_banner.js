/** A line above the conversation while somebody has stopped it, its agent or everything: who, when and why. */

import { createTimeElement } from "../shared/relative_times.js";
import { fill } from "../shared/texts.js";

export function startFreezeBanner(app) {
  const { gateway, texts } = app;
  const line = document.getElementById("halted");
  const freezesUrl = document.getElementById("main").dataset.stops; // the page to resume, for those who may
  let lastRequest = 0; // the number of the last question: answers to earlier ones come too late

  async function refresh() {
    if (!gateway.ready || !app.feed) return;
    const request = ++lastRequest;
    const response = await gateway.request("panic.status", { sessionKey: app.feed.sessionKey }).catch(() => null);
    if (response && request === lastRequest) show(response.stopped[0]);
  }

  /** Of several the widest, which the server names first. */
  function show(freeze) {
    line.hidden = !freeze;
    line.textContent = freeze ? `${fill(texts.halted, freeze.by, freeze.reason)} · ` : "";
    if (freeze) line.append(createTimeElement(freeze.at));
    if (!freeze || !freezesUrl) return;
    const link = document.createElement("a");
    link.href = `${freezesUrl}#stop-${freeze.id}`;
    link.textContent = texts.resume;
    line.append(" ", link);
  }

  app.on("connection", ({ name }) => name === "ready" && refresh());
  app.on("session", refresh);
  app.on("event", ({ name }) => name === "freeze" && refresh());
}
