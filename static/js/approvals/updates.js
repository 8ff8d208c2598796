/**
 * Signals the parts of a page to reload the pending requests: on gateway events, and periodically as a fallback.
 *
 * Shared by all parts of a page. Events are only hints; listeners fetch the actual state. Hidden pages are notified too, for the
 * badge and notifications, but they do not poll.
 */

import { Gateway, randomId } from "../shared/gateway.js";

const DEBOUNCE_MS = 150; // events often arrive in bursts
const POLL_MS = 20_000; // with a socket, in case an event was missed
const POLL_OFFLINE_MS = 4_000; // without a socket

const listeners = new Set();
let isLive = false;
let debounceTimer = null;
let pollTimer = null;
let started = false;

/**
 * Call `listener({live, notified})` when something may have changed, or when the socket connects or disconnects. `notified` is true
 * if a gateway event was the reason.
 */
export function onApprovalChange(listener) {
  listeners.add(listener);
  if (isLive) listener({ live: true, notified: false }); // the socket connected before this listener was added
  start();
}

/** Notify the other parts of the page after a local change. */
export function refreshApprovals() {
  notifyListeners(false);
}

/** Use the chat's socket, which receives approval events too. */
export function useChatSocket(app) {
  app.on("connection", ({ name }) => setLive(name === "ready"));
  app.on("event", ({ name }) => name.startsWith("exec.approval.") && notifySoon());
}

function start() {
  if (started) return;
  started = true;
  schedulePoll();
  document.addEventListener("visibilitychange", () => document.hidden || notifyListeners(false));
  if (document.body.matches(".chat-page")) return; // useChatSocket() connects it to the chat's socket
  // A separate socket with only the scope it needs, so it receives no session events.
  new Gateway({
    url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
    client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
    scopes: ["operator.approvals"],
    onState: ({ name }) => setLive(name === "ready"),
    onEvent: (name) => name.startsWith("exec.approval.") && notifySoon(),
    onGap: notifySoon,
  }).start();
}

function setLive(live) {
  if (live === isLive) return;
  isLive = live;
  notifyListeners(false);
}

function notifySoon() {
  clearTimeout(debounceTimer);
  debounceTimer = setTimeout(() => notifyListeners(true), DEBOUNCE_MS);
}

function notifyListeners(notified) {
  for (const listener of listeners) listener({ live: isLive, notified });
  schedulePoll();
}

function schedulePoll() {
  clearTimeout(pollTimer);
  pollTimer = setTimeout(() => (document.hidden ? schedulePoll() : notifyListeners(false)), isLive ? POLL_MS : POLL_OFFLINE_MS);
}
