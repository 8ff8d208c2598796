/** The shown conversation: its feed, its transcript, its pages, and the place in it at which somebody reads. */

import { SessionFeed } from "../../shared/feed.js";
import { applyEvent } from "./live_events.js";
import { startMessageActions } from "./message_actions.js";
import { Pages } from "./history_pages.js";
import { Reading } from "./scroll_position.js";
import { startCodeButtons } from "../markdown/decorations.js";
import { Renderer } from "../markdown/renderer.js";
import { agentOf, isForeign } from "../sessions/row.js";
import { startStates } from "./placeholders.js";
import { Transcript } from "./transcript.js";
import { fill, reason } from "../../shared/texts.js";

const POINTED_MS = 4000; // how long a message that was linked to stands out
const RETRY_MS = 2000;
const BARRED_MS = 5000; // how often an account that may not chat asks whether it may by now

export function startConversation(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const log = at("log");
  const root = at("messages");
  const renderer = new Renderer(gateway);
  const address = (messageId) => app.address(app.feed.sessionKey, messageId);
  const letAsk = () => app.letAsk && `${app.letAsk}?${new URLSearchParams({ let: agentOf({ key: app.feed.sessionKey }) })}#let-ask`;
  const transcript = new Transcript({ root, page: { words, renderer, username: app.username, address, explain: app.explain, letAsk } });
  const reading = new Reading({ log, content: root, end: at("end"), button: at("jump"), words });
  const pages = new Pages({ app, transcript, reading, log, top: at("older"), bottom: at("newer") });
  const states = startStates(app);
  let barred = null; // the timer of asking again, while the account may not even read
  let wanted = null; // the message that the address names, until it is shown
  let isGone = false; // it is not shared with us (any more)

  app.conversation = { transcript, sync, asked, unasked, reload, rewinding: false };
  transcript.onAnswer = (text) => app.say(fill(words.answer, text));
  transcript.onAsked = (tool) => app.say(fill(words.asksFor, tool));
  transcript.onNews = () => reading.news();
  startCodeButtons(app, root);
  startMessageActions(app, root);
  at("jump").addEventListener("click", () => (pages.behind ? reload() : reading.toEnd()));

  app.on("session", ({ key, messageId }) => open(key, messageId));
  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    clearTimeout(barred);
    barred = null;
    renderer.wake();
    sync();
  });
  app.on("people", ({ gone }) => {
    root.classList.toggle("read-only", !app.mayWrite());
    if (gone && !isGone) unshared();
    else if (!gone && isGone) reload();
    isGone = gone;
  });
  app.on("event", ({ name, payload }) => {
    if (payload.cursor) follow(() => app.feed.take(payload));
    if (name === "sessions.changed") changed(payload);
    if (name.startsWith("exec.approval.")) transcript.tools.forEach((card) => card.approval?.heard(payload.id));
  });

  function open(sessionKey, messageId) {
    wanted = messageId;
    if (app.feed?.sessionKey === sessionKey) return follow(reveal);
    app.feed?.close();
    isGone = false;
    transcript.clear();
    pages.begin();
    states.show("loading");
    app.feed = new SessionFeed({ gateway, sessionKey, onHistory: showHistory, onEvent: showEvent });
    if (gateway.ready) sync();
  }

  function showHistory(history) {
    const { sessionKey } = history;
    // One's own by the link that others use: events tell of it under its key.
    if (isForeign(app.feed.sessionKey) && !isForeign(sessionKey)) return location.replace(app.address(sessionKey, wanted));
    const joins = pages.joins(history);
    if (!joins) transcript.clear();
    transcript.show(history);
    if (!joins) pages.begin(history);
    app.emit("history", history);
    states.show(transcript.isEmpty ? "welcome" : null);
    app.conversation.rewinding = false;
    if (wanted) follow(reveal);
    else if (!joins) reading.toEnd();
  }

  function showEvent(payload) {
    if (payload.change === "rewind") return rewound(payload);
    if (pages.behind) return reading.news(); // it is stored below, and comes with its page
    if (transcript.isEmpty) states.show(null);
    applyEvent(transcript, payload);
  }

  /** Another window has taken back a message. In this one it was done at once. */
  function rewound({ keepThrough }) {
    const ours = app.conversation.rewinding;
    app.conversation.rewinding = false;
    if (!ours && !transcript.keepThrough(keepThrough)) reload();
  }

  /** A message of ours on its way: shown before the server tells of it. */
  function asked(runId, { message, attachments }, note) {
    if (pages.behind) reload();
    states.show(null);
    transcript.asked(runId, { content: message, attachments, timestamp: Date.now() }, note);
    reading.toEnd();
  }

  /** Take back a message that never became a run. False when it did. */
  function unasked(runId) {
    const taken = transcript.unsend(runId);
    if (taken && transcript.isEmpty && app.feed.loaded) states.show("welcome");
    return taken;
  }

  /** Go to the message that the address names. */
  async function reveal() {
    if (!wanted || !app.feed.loaded) return;
    const messageId = wanted;
    if (!transcript.find(messageId) && !(await pages.around(messageId))) {
      wanted = null;
      return app.problem(words.noSuchMessage);
    }
    wanted = null;
    const message = transcript.find(messageId);
    reading.stay();
    message.scrollIntoView({ block: "center" });
    message.tabIndex = -1;
    message.focus({ preventScroll: true });
    message.classList.add("pointed-at");
    setTimeout(() => message.classList.remove("pointed-at"), POINTED_MS);
  }

  /** The session was deleted, in this window or another, or brought back. */
  function changed({ sessionKey, sessionId, reason: what }) {
    if (sessionKey !== app.feed.sessionKey || (app.feed.sessionId && sessionId !== app.feed.sessionId)) return;
    if (what === "restored" || (what === "created" && states.inTrouble)) return reload();
    if (what !== "deleted") return;
    app.feed.sessionId = null; // the next session of this key is another one
    transcript.clear();
    pages.begin();
    const restore = () => follow(() => gateway.request("sessions.restore", { sessionId }).then(reload));
    const home = [words.toMain, () => app.open(app.mainKey)];
    if (isForeign(sessionKey)) states.trouble({ title: words.deleted, text: words.deletedByOwner, actions: [home] });
    else states.trouble({ title: words.deleted, text: words.deletedText, actions: [[words.restore, restore], home] });
  }

  /** Its owner shares it no longer, or never did. */
  function unshared() {
    if (states.inTrouble) return; // it was deleted
    app.feed.loaded = false;
    transcript.clear();
    pages.begin();
    states.trouble({ title: words.unshared, text: words.unsharedText, actions: [[words.toMain, () => app.open(app.mainKey)]] });
  }

  function reload() {
    pages.begin();
    follow(() => app.feed.reload());
  }

  function sync() {
    follow(async () => {
      await states.whileCatchingUp(app.feed.sync());
      if (barred) gateway.renew(); // it may read by now: hello-ok says what else
    });
  }

  /** The account may not chat. The server says nothing when that changes, so ask. */
  function wait() {
    states.show(null);
    app.problem(words.mayNotChat);
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
      if (error.code === "NOT_FOUND" && isForeign(app.feed.sessionKey)) return app.people.ask();
      const text = fill(words.notLoaded, reason(words, error));
      if (app.feed.loaded) app.problem(text);
      else states.trouble({ title: words.noConversation, text, actions: [[words.retryNow, reload], [words.toMain, () => app.open(app.mainKey)]] });
      if (error.retryable) setTimeout(() => gateway.ready && sync(), error.retryAfterMs ?? RETRY_MS);
    }
  }
}
