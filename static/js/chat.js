/** The chat page: connects the socket, the feed of the chosen session, its transcript, the list and the composer. */

import { SessionFeed } from "./feed.js";
import { Gateway, randomId } from "./gateway.js";
import { SessionList } from "./session_list.js";
import { fill } from "./template.js";
import { Transcript } from "./transcript.js";
import { Unsent } from "./unsent.js";

const MAIN = "agent:main:main";
const AT_THE_END = 120; // pixels: nearer than this to the last line counts as reading along
const RETRY_MS = 2000;
const BARRED_MS = 5000; // how often an account that may not chat asks whether it may by now

const words = document.getElementById("words").dataset;
const at = (id) => document.getElementById(id);

let feed = null;
let countdown = null;
let writable = true;
let stopping = false;
let barred = null; // the timer of asking again, while the account may not even read
const unsent = new Unsent(at("main").dataset.account);

const gateway = new Gateway({
  url: `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`,
  client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
  caps: ["tool-events"],
  onState: showState,
  onEvent: receive,
  onGap: sync,
});
const transcript = new Transcript({ root: at("messages"), words, onRuns: showStop, onAnswer: (text) => say(fill(words.answer, text)) });
const list = new SessionList({ gateway, words, mainKey: MAIN, root: at("session-list"), onTitle: showTitle });

/* The connection */

function showState(state) {
  clearInterval(countdown);
  const { connecting, ready, offline, outdated, signedOut, refused } = words;
  const told = { connecting, ready, offline, outdated, "signed-out": signedOut, refused }[state.name];
  const tell = () => {
    at("connection").textContent = told ?? fill(words.waiting, Math.max(1, Math.ceil((state.until - Date.now()) / 1000)));
  };
  tell();
  if (state.name !== "connecting") say(at("connection").textContent); // once, and not every second of the countdown
  at("connection").dataset.state = state.name;
  if (state.name === "waiting") countdown = setInterval(tell, 1000);
  if (state.name === "signed-out") problem(words.signInAgain);
  if (state.name === "refused") problem(fill(words.refusedWhy, state.why));
  if (state.name === "outdated") problem(words.reload);
  if (state.name === "ready") connected(state.hello);
}

function connected(hello) {
  const { scopes } = hello.auth;
  writable = scopes.includes("operator.write");
  at("message").disabled = at("send").disabled = !writable;
  clearTimeout(barred);
  barred = null;
  problem(writable ? "" : scopes.includes("operator.read") ? words.readOnly : words.mayNotChat);
  sync();
  list.refresh();
  showUnsent(); // some may have become old while there was no connection
  if (writable) for (const [runId, params] of unsent.list()) if (!unsent.isOld(runId)) deliver(runId, params);
}

function receive(name, payload) {
  unsent.remove(payload.runId); // it has become a run, also if the answer that says so was lost
  if (payload.cursor) follow(() => feed.take(payload));
  const isShown = name === "sessions.changed" && payload.sessionKey === feed.sessionKey && feed.sessionId;
  if (isShown && (payload.reason === "deleted" || (payload.reason === "created" && payload.sessionId !== feed.sessionId))) {
    follow(() => feed.restart());
  }
  // Titles, order and previews change when a run begins or ends, and when a session is made, named or deleted.
  if (/^sessions?\b/.test(name) || ["accepted", "end", "error"].includes(payload.data?.phase)) list.refresh();
}

/* The conversation */

function open() {
  const sessionKey = decodeURIComponent(location.hash.slice(1)) || MAIN;
  feed?.close();
  transcript.clear();
  at("welcome").hidden = true;
  feed = new SessionFeed({ gateway, sessionKey, onHistory: showHistory, onEvent: showEvent });
  list.show(sessionKey);
  showUnsent();
  if (gateway.ready) sync();
}

function showHistory(history) {
  transcript.show(history);
  showUnsent();
  at("welcome").hidden = !transcript.isEmpty;
  toTheEnd();
}

function showUnsent() {
  for (const [runId, { message }] of unsent.list(feed.sessionKey)) {
    if (transcript.knows(runId)) unsent.remove(runId);
    else if (unsent.isOld(runId)) transcript.offer(runId, message, { send: () => sendKept(runId), discard: () => discard(runId) });
    else transcript.asked(runId, message, sendingNote());
  }
}

/** Under its old key: if it did arrive at the time, it does not become a second run. */
function sendKept(runId) {
  if (!writable) return;
  const [, { message }] = unsent.list(feed.sessionKey).find(([id]) => id === runId);
  discard(runId);
  send(message, runId);
}

function discard(runId) {
  unsent.remove(runId);
  transcript.unsend(runId);
}

function sendingNote() {
  return gateway.ready ? words.sending : words.notSentYet;
}

function showEvent(payload) {
  const log = at("log");
  const readingAlong = log.scrollHeight - log.scrollTop - log.clientHeight < AT_THE_END;
  at("welcome").hidden = true;
  transcript.apply(payload);
  if (readingAlong) toTheEnd();
}

function toTheEnd() {
  at("log").scrollTop = at("log").scrollHeight;
}

function sync() {
  follow(async () => {
    await feed.sync();
    if (barred) gateway.renew(); // it may read by now: hello-ok says what else
  });
}

/** The account may not chat. The server says nothing when that changes, so ask. */
function wait() {
  problem(words.mayNotChat);
  clearTimeout(barred);
  barred = setTimeout(() => gateway.ready && sync(), BARRED_MS);
}

/** Losing the connection in between is no news: the next one starts again. */
async function follow(step) {
  try {
    await step();
  } catch (error) {
    if (error.code === "DISCONNECTED") return;
    if (error.details?.code === "MISSING_SCOPE") return wait();
    problem(fill(words.notLoaded, reason(error)));
    if (error.retryable) setTimeout(() => gateway.ready && sync(), error.retryAfterMs ?? RETRY_MS);
  }
}

function showTitle(title) {
  at("title").textContent = title;
  document.title = `${title} · Clawsite`;
}

/** Read out by screen readers. Not the log itself: a growing answer would be read word by word. */
function say(text) {
  at("announce").textContent = text;
}

/* Writing and stopping */

function send(message, runId = randomId()) {
  if (!message.trim() || !writable) return;
  problem("");
  if (message.trim().toLowerCase() === "/stop") return void stop(); // of use now or never, so it is not kept
  const params = { sessionKey: feed.sessionKey, message };
  at("welcome").hidden = true;
  transcript.asked(runId, message, sendingNote());
  toTheEnd();
  unsent.add(runId, params);
  if (gateway.ready) deliver(runId, params);
}

/** The run's id is the idempotency key, so sending again after a break never makes a second run. */
async function deliver(runId, { sessionKey, message }) {
  transcript.mark(runId, words.sending);
  try {
    const answer = await gateway.request("chat.send", { sessionKey, message, idempotencyKey: runId });
    unsent.remove(runId);
    transcript.mark(runId, words.queued);
    // A command is done and no run; a run that had ended before stands in the history.
    if (!answer.runId || answer.status === "ok") transcript.unsend(runId);
  } catch (error) {
    if (error.code === "DISCONNECTED") return transcript.mark(runId, words.notSentYet); // the next connection sends it again
    if (error.code === "TIMEOUT") return gateway.ready && unsent.has(runId) && deliver(runId, { sessionKey, message });
    unsent.remove(runId);
    if (sessionKey === feed.sessionKey && !transcript.unsend(runId)) return;
    at("message").value = [at("message").value, message].filter(Boolean).join("\n"); // given back, beside what was written since
    grow();
    problem(fill(words.notSent, reason(error)));
  }
}

function showStop(unfinished) {
  if (unfinished === 0) stopping = false;
  at("stop").hidden = unfinished === 0;
  at("stop").disabled = stopping;
  at("stop").textContent = stopping ? words.stopping : words.stop;
}

async function stop() {
  stopping = true;
  showStop(transcript.unfinished.size);
  try {
    // The end of the run, not this answer, says that it has stopped.
    const { aborted } = await gateway.request("chat.abort", { sessionKey: feed.sessionKey });
    stopping = stopping && aborted;
  } catch (error) {
    stopping = false;
    problem(fill(words.notStopped, reason(error)));
  }
  showStop(transcript.unfinished.size);
}

function reason(error) {
  if (error.details?.code === "MISSING_SCOPE") return error.details.missingScope === "operator.write" ? words.readOnly : words.mayNotChat;
  return { DISCONNECTED: words.notConnected, TIMEOUT: words.timedOut }[error.code] ?? error.message;
}

function problem(text) {
  at("problem").textContent = text;
  at("problem").hidden = !text;
}

/* The page */

function grow() {
  at("message").rows = Math.min(12, at("message").value.split("\n").length);
}

function submit() {
  send(at("message").value);
  at("message").value = "";
  grow();
}

/** Not on a phone, where it would bring up the keyboard. */
function focusMessage() {
  if (matchMedia("(hover: hover)").matches) at("message").focus();
}

function toggleSessions(open) {
  at("sessions").classList.toggle("open", open);
  at("toggle-sessions").setAttribute("aria-expanded", String(open));
}

at("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
at("message").addEventListener("input", grow);
at("message").addEventListener("keydown", (event) => {
  // While an input method composes, Enter chooses a word.
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    submit();
  }
});
at("stop").addEventListener("click", stop);
at("welcome").addEventListener("click", ({ target }) => target.dataset.prompt && send(target.dataset.prompt));
at("toggle-sessions").addEventListener("click", () => toggleSessions(!at("sessions").classList.contains("open")));
at("new-session").addEventListener("click", () => {
  location.hash = encodeURIComponent(`agent:main:web-${randomId().slice(0, 12)}`);
});
addEventListener("hashchange", () => {
  toggleSessions(false);
  open();
  focusMessage();
});

open();
gateway.start();
