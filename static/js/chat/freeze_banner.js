/** A line above the conversation while somebody has stopped it, its agent or everything: who, when and why. */

import { momentOf } from "../shared/relative_times.js";
import { fill } from "../shared/texts.js";

export function startHalted(app) {
  const { gateway, words } = app;
  const line = document.getElementById("halted");
  const stops = document.getElementById("main").dataset.stops; // the page to resume, for those who may
  let asked = 0; // the number of the last question: answers to earlier ones come too late

  async function look() {
    if (!gateway.ready || !app.feed) return;
    const mine = ++asked;
    const answer = await gateway.request("panic.status", { sessionKey: app.feed.sessionKey }).catch(() => null);
    if (answer && mine === asked) show(answer.stopped[0]);
  }

  /** Of several the widest, which the server names first. */
  function show(stop) {
    line.hidden = !stop;
    line.textContent = stop ? `${fill(words.halted, stop.by, stop.reason)} · ` : "";
    if (stop) line.append(momentOf(stop.at));
    if (!stop || !stops) return;
    const link = document.createElement("a");
    link.href = `${stops}#stop-${stop.id}`;
    link.textContent = words.resume;
    line.append(" ", link);
  }

  app.on("connection", ({ name }) => name === "ready" && look());
  app.on("session", look);
  app.on("event", ({ name }) => name === "freeze" && look());
}
