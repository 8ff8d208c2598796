/** Shows the connection state, the time until the next attempt, and what to do if the connection failed. */

import { fill } from "../shared/texts.js";

export function startConnectionStatus(app) {
  const { texts } = app;
  const indicator = document.getElementById("connection");
  let countdown = null;
  let wasDisconnected = false;

  app.on("connection", (state) => {
    clearInterval(countdown);
    const { connecting, ready, offline, outdated, signedOut, refused } = texts;
    const text = { connecting, ready, offline, outdated, "signed-out": signedOut, refused }[state.name];
    const update = () => {
      indicator.textContent = text ?? fill(texts.waiting, Math.max(1, Math.ceil((state.until - Date.now()) / 1000)));
    };
    update();
    // Announced once, not every second of the countdown; the first connection of a page is not announced.
    if (state.name !== "connecting" && (wasDisconnected || state.name !== "ready")) app.announce(indicator.textContent);
    wasDisconnected = !["connecting", "ready"].includes(state.name) || (wasDisconnected && state.name === "connecting");
    indicator.dataset.state = state.name;
    if (state.name === "waiting") countdown = setInterval(update, 1000);
    if (state.name === "signed-out") app.showProblem(texts.signInAgain);
    if (state.name === "refused") app.showProblem(fill(texts.refusedWhy, state.why));
    if (state.name === "outdated") app.showProblem(texts.reload);
    if (state.name === "ready") updateAccess(state.hello.auth);
  });

  function updateAccess({ scopes }) {
    app.writable = scopes.includes("operator.write");
    app.showProblem(app.writable ? "" : scopes.includes("operator.read") ? texts.readOnly : texts.mayNotChat);
  }
}
