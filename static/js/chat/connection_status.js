/** The state of the line, in words: connected, when it is tried again, signed out, and what to do about it. */

import { fill } from "../shared/texts.js";

export function startConnection(app) {
  const { words } = app;
  const sign = document.getElementById("connection");
  let countdown = null;
  let broken = false;

  app.on("connection", (state) => {
    clearInterval(countdown);
    const { connecting, ready, offline, outdated, signedOut, refused } = words;
    const told = { connecting, ready, offline, outdated, "signed-out": signedOut, refused }[state.name];
    const tell = () => {
      sign.textContent = told ?? fill(words.waiting, Math.max(1, Math.ceil((state.until - Date.now()) / 1000)));
    };
    tell();
    // Said once, and not every second of the countdown; that a page connects at first, nobody needs to hear.
    if (state.name !== "connecting" && (broken || state.name !== "ready")) app.say(sign.textContent);
    broken = !["connecting", "ready"].includes(state.name) || (broken && state.name === "connecting");
    sign.dataset.state = state.name;
    if (state.name === "waiting") countdown = setInterval(tell, 1000);
    if (state.name === "signed-out") app.problem(words.signInAgain);
    if (state.name === "refused") app.problem(fill(words.refusedWhy, state.why));
    if (state.name === "outdated") app.problem(words.reload);
    if (state.name === "ready") connected(state.hello.auth);
  });

  function connected({ scopes }) {
    app.writable = scopes.includes("operator.write");
    app.problem(app.writable ? "" : scopes.includes("operator.read") ? words.readOnly : words.mayNotChat);
  }
}
