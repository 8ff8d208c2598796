/** The shown conversation: its feed, its transcript, its pages, and the place in it at which somebody reads. */

import { SessionFeed } from "../../shared/feed.js";
import { describeError, fill } from "../../shared/texts.js";
import { startCodeButtons } from "../markdown/decorations.js";
import { Renderer } from "../markdown/renderer.js";
import { getAgentId, isForeign } from "../sessions/row.js";
import { HistoryPages } from "./history_pages.js";
import { applyEvent } from "./live_events.js";
import { startMessageActions } from "./message_actions.js";
import { startPlaceholders } from "./placeholders.js";
import { ScrollPosition } from "./scroll_position.js";
import { Transcript } from "./transcript.js";

const HIGHLIGHT_MS = 4000; // how long a message that was linked to stands out
const RETRY_MS = 2000;
const ACCESS_CHECK_MS = 5000; // how often an account that may not chat asks whether it may by now

export function startSessionView(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const log = byId("log");
  const root = byId("messages");
  const renderer = new Renderer(gateway);
  const urlFor = (messageId) => app.urlFor(app.feed.sessionKey, messageId);
  const allowRequestsUrl = () => app.allowRequestsUrl && `${app.allowRequestsUrl}?${new URLSearchParams({ let: getAgentId({ key: app.feed.sessionKey }) })}#let-ask`;
  const transcript = new Transcript({ root, page: { texts, renderer, username: app.username, urlFor, explainUrl: app.explainUrl, allowRequestsUrl } });
  const scroll = new ScrollPosition({ log, content: root, end: byId("end"), button: byId("jump"), texts });
  const pages = new HistoryPages({ app, transcript, scroll, log, top: byId("older"), bottom: byId("newer") });
  const placeholders = startPlaceholders(app);
  let accessTimer = null; // the timer of asking again, while the account may not even read
  let targetId = null; // the message that the address names, until it is shown
  let isGone = false; // it is not shared with us (any more)

  app.sessionView = { transcript, sync, showPending, removePending, reload, rewinding: false };
  transcript.onAnswer = (text) => app.announce(fill(texts.answer, text));
  transcript.onApprovalRequested = (tool) => app.announce(fill(texts.asksFor, tool));
  transcript.onNewMessage = () => scroll.addUnread();
  startCodeButtons(app, root);
  startMessageActions(app, root);
  byId("jump").addEventListener("click", () => (pages.behind ? reload() : scroll.toEnd()));

  app.on("session", ({ key, messageId }) => open(key, messageId));
  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    clearTimeout(accessTimer);
    accessTimer = null;
    renderer.resume();
    sync();
  });
  app.on("members", ({ gone }) => {
    root.classList.toggle("read-only", !app.canWrite());
    if (gone && !isGone) showUnshared();
    else if (!gone && isGone) reload();
    isGone = gone;
  });
  app.on("event", ({ name, payload }) => {
    if (payload.cursor) attempt(() => app.feed.take(payload));
    if (name === "sessions.changed") handleSessionChange(payload);
    if (name.startsWith("exec.approval.")) transcript.tools.forEach((card) => card.approval?.refresh(payload.id));
  });

  function open(sessionKey, messageId) {
    targetId = messageId;
    if (app.feed?.sessionKey === sessionKey) return attempt(reveal);
    app.feed?.close();
    isGone = false;
    transcript.clear();
    pages.begin();
    placeholders.show("loading");
    app.feed = new SessionFeed({ gateway, sessionKey, onHistory: showHistory, onEvent: showEvent });
    if (gateway.ready) sync();
  }

  function showHistory(history) {
    const { sessionKey } = history;
    // One's own by the link that others use: events tell of it under its key.
    if (isForeign(app.feed.sessionKey) && !isForeign(sessionKey)) return location.replace(app.urlFor(sessionKey, targetId));
    const joins = pages.joins(history);
    if (!joins) transcript.clear();
    transcript.show(history);
    if (!joins) pages.begin(history);
    app.emit("history", history);
    placeholders.show(transcript.isEmpty ? "welcome" : null);
    app.sessionView.rewinding = false;
    if (targetId) attempt(reveal);
    else if (!joins) scroll.toEnd();
  }

  function showEvent(payload) {
    if (payload.change === "rewind") return handleRewind(payload);
    if (pages.behind) return scroll.addUnread(); // it is stored below, and comes with its page
    if (transcript.isEmpty) placeholders.show(null);
    applyEvent(transcript, payload);
  }

  /** Another window has taken back a message. In this one it was done at once. */
  function handleRewind({ keepThrough }) {
    const ours = app.sessionView.rewinding;
    app.sessionView.rewinding = false;
    if (!ours && !transcript.truncateAfter(keepThrough)) reload();
  }

  /** A message of ours on its way: shown before the server tells of it. */
  function showPending(runId, { message, attachments }, note) {
    if (pages.behind) reload();
    placeholders.show(null);
    transcript.showUserMessage(runId, { content: message, attachments, timestamp: Date.now() }, note);
    scroll.toEnd();
  }

  /** Take back a message that never became a run. False when it did. */
  function removePending(runId) {
    const taken = transcript.removeUnsent(runId);
    if (taken && transcript.isEmpty && app.feed.loaded) placeholders.show("welcome");
    return taken;
  }

  /** Go to the message that the address names. */
  async function reveal() {
    if (!targetId || !app.feed.loaded) return;
    const messageId = targetId;
    if (!transcript.find(messageId) && !(await pages.around(messageId))) {
      targetId = null;
      return app.showProblem(texts.noSuchMessage);
    }
    targetId = null;
    const message = transcript.find(messageId);
    scroll.stopFollowing();
    message.scrollIntoView({ block: "center" });
    message.tabIndex = -1;
    message.focus({ preventScroll: true });
    message.classList.add("pointed-at");
    setTimeout(() => message.classList.remove("pointed-at"), HIGHLIGHT_MS);
  }

  /** The session was deleted, in this window or another, or brought back. */
  function handleSessionChange({ sessionKey, sessionId, reason }) {
    if (sessionKey !== app.feed.sessionKey || (app.feed.sessionId && sessionId !== app.feed.sessionId)) return;
    if (reason === "restored" || (reason === "created" && placeholders.isErrorShown)) return reload();
    if (reason !== "deleted") return;
    app.feed.sessionId = null; // the next session of this key is another one
    transcript.clear();
    pages.begin();
    const restore = () => attempt(() => gateway.request("sessions.restore", { sessionId }).then(reload));
    const home = [texts.toMain, () => app.open(app.mainKey)];
    if (isForeign(sessionKey)) placeholders.showError({ title: texts.deleted, text: texts.deletedByOwner, actions: [home] });
    else placeholders.showError({ title: texts.deleted, text: texts.deletedText, actions: [[texts.restore, restore], home] });
  }

  /** Its owner shares it no longer, or never did. */
  function showUnshared() {
    if (placeholders.isErrorShown) return; // it was deleted
    app.feed.loaded = false;
    transcript.clear();
    pages.begin();
    placeholders.showError({ title: texts.unshared, text: texts.unsharedText, actions: [[texts.toMain, () => app.open(app.mainKey)]] });
  }

  function reload() {
    pages.begin();
    attempt(() => app.feed.reload());
  }

  function sync() {
    attempt(async () => {
      await placeholders.whileCatchingUp(app.feed.sync());
      if (accessTimer) gateway.renew(); // it may read by now: hello-ok says what else
    });
  }

  /** The account may not chat. The server says nothing when that changes, so ask. */
  function waitForAccess() {
    placeholders.show(null);
    app.showProblem(texts.mayNotChat);
    clearTimeout(accessTimer);
    accessTimer = setTimeout(() => gateway.ready && sync(), ACCESS_CHECK_MS);
  }

  /** Losing the connection in between is no news: the next one starts again. */
  async function attempt(step) {
    try {
      await step();
    } catch (error) {
      if (error.code === "DISCONNECTED") return;
      if (error.details?.code === "MISSING_SCOPE") return waitForAccess();
      if (error.code === "NOT_FOUND" && isForeign(app.feed.sessionKey)) return app.members.load();
      const text = fill(texts.notLoaded, describeError(error, texts));
      if (app.feed.loaded) app.showProblem(text);
      else placeholders.showError({ title: texts.noConversation, text, actions: [[texts.retryNow, reload], [texts.toMain, () => app.open(app.mainKey)]] });
      if (error.retryable) setTimeout(() => gateway.ready && sync(), error.retryAfterMs ?? RETRY_MS);
    }
  }
}
