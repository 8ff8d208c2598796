/**
 * When to look at the open questions again: as soon as the gateway tells of one, and every now and then in any case.
 *
 * One for all parts of a page. What was told is only a hint; whoever hears it asks the server. A page that nobody looks at is
 * told too, because of its badge and notifications, but does not ask by itself.
 */

import { Gateway, randomId } from "../shared/gateway.js";

const CALM_MS = 150; // several are often told of at once
const LOOK_MS = 20_000; // with a socket, in case something was missed
const LOOK_OFTEN_MS = 4_000; // without one

const listeners = new Set();
let isLive = false;
let calm = null;
let timer = null;
let started = false;

/** Call `listener({live, told})` whenever there may be something new, the socket's coming and going too; `told`: the gateway said so. */
export function onQuestions(listener) {
  listeners.add(listener);
  if (isLive) listener({ live: true, told: false }); // the socket was ready before this part of the page
  start();
}

/** Something has happened that others on this page should look at. */
export function lookAgain() {
  tell(false);
}

/** The chat has a socket that hears of questions too. */
export function lendSocket(app) {
  app.on("connection", ({ name }) => state(name === "ready"));
  app.on("event", ({ name }) => name.startsWith("exec.approval.") && soon());
}

function start() {
  if (started) return;
  started = true;
  wait();
  document.addEventListener("visibilitychange", () => document.hidden || tell(false));
  if (document.body.matches(".chat-page")) return; // it lends us its own
  // Its own socket, with the one scope it needs: no conversation is told to it.
  new Gateway({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
    client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
    scopes: ["operator.approvals"],
    onState: ({ name }) => state(name === "ready"),
    onEvent: (name) => name.startsWith("exec.approval.") && soon(),
    onGap: soon,
  }).start();
}

function state(live) {
  if (live === isLive) return;
  isLive = live;
  tell(false);
}

function soon() {
  clearTimeout(calm);
  calm = setTimeout(() => tell(true), CALM_MS);
}

function tell(told) {
  for (const listener of listeners) listener({ live: isLive, told });
  wait();
}

function wait() {
  clearTimeout(timer);
  timer = setTimeout(() => (document.hidden ? wait() : tell(false)), isLive ? LOOK_MS : LOOK_OFTEN_MS);
}
