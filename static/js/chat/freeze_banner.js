/** Shows a banner while the session, its agent or the whole server is frozen, saying who froze it, when and why. */

import { createTimeElement } from "../shared/relative_times.js";
import { fill } from "../shared/texts.js";

export function startFreezeBanner(app) {
  const { gateway, texts } = app;
  const banner = document.getElementById("halted");
  const freezesUrl = document.getElementById("main").dataset.stops; // the page to resume work, for users with permission
  let lastRequest = 0; // responses to earlier requests are ignored

  async function refresh() {
    if (!gateway.ready || !app.feed) return;
    const request = ++lastRequest;
    const response = await gateway.request("panic.status", { sessionKey: app.feed.sessionKey }).catch(() => null);
    if (response && request === lastRequest) show(response.stopped[0]);
  }

  /** Show a freeze. If there are several, it is the widest, which the server lists first. */
  function show(freeze) {
    banner.hidden = !freeze;
    banner.textContent = freeze ? `${fill(texts.halted, freeze.by, freeze.reason)} · ` : "";
    if (freeze) banner.append(createTimeElement(freeze.at));
    if (!freeze || !freezesUrl) return;
    const link = document.createElement("a");
    link.href = `${freezesUrl}#stop-${freeze.id}`;
    link.textContent = texts.resume;
    banner.append(" ", link);
  }

  app.on("connection", ({ name }) => name === "ready" && refresh());
  app.on("session", refresh);
  app.on("event", ({ name }) => name === "freeze" && refresh());
}
