/** The current session: its feed, transcript, history pages and scroll position. */

import { SessionFeed } from "../../shared/feed.js";
import { describeError, fill } from "../../shared/texts.js";
import { startCodeButtons } from "../markdown/decorations.js";
import { Renderer } from "../markdown/renderer.js";
import { getAgentId, isSharedWithMe } from "../sessions/row.js";
import { HistoryPages } from "./history_pages.js";
import { applyEvent } from "./live_events.js";
import { startMessageActions } from "./message_actions.js";
import { startPlaceholders } from "./placeholders.js";
import { ScrollPosition } from "./scroll_position.js";
import { Transcript } from "./transcript.js";

const HIGHLIGHT_MS = 4000; // how long a linked message is highlighted
const RETRY_MS = 2000;
const ACCESS_CHECK_MS = 5000; // how often an account without access checks for it

export function startSessionView(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const log = byId("log");
  const root = byId("messages");
  const renderer = new Renderer(gateway);
  const urlFor = (messageId) => app.urlFor(app.feed.sessionKey, messageId);
  const allowRequestsUrl = () => app.allowRequestsUrl
    && `${app.allowRequestsUrl}?${new URLSearchParams({ let: getAgentId({ key: app.feed.sessionKey }) })}#let-ask`;
  const transcript = new Transcript({
    root,
    page: { texts, renderer, username: app.username, urlFor, explainUrl: app.explainUrl, allowRequestsUrl },
  });
  const scroll = new ScrollPosition({ log, content: root, end: byId("end"), button: byId("jump"), texts });
  const pages = new HistoryPages({ app, transcript, scroll, log, top: byId("older"), bottom: byId("newer") });
  const placeholders = startPlaceholders(app);
  let accessTimer = null; // while the account cannot read
  let targetId = null; // the message named in the URL, until it is shown
  let isGone = false; // the session is not, or no longer, shared with this user

  app.sessionView = { transcript, sync, showPending, removePending, reload, rewinding: false };
  transcript.onAnswer = (text) => app.announce(fill(texts.answer, text));
  transcript.onApprovalRequested = (tool) => app.announce(fill(texts.asksFor, tool));
  transcript.onNewMessage = () => scroll.addUnread();
  startCodeButtons(app, root);
  startMessageActions(app, root);
  byId("jump").addEventListener("click", () => (pages.hasNewer ? reload() : scroll.toEnd()));

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
    if (payload.cursor) reportErrors(() => app.feed.take(payload));
    if (name === "sessions.changed") handleSessionChange(payload);
    if (name.startsWith("exec.approval.")) transcript.tools.forEach((card) => card.approval?.refresh(payload.id));
  });

  function open(sessionKey, messageId) {
    targetId = messageId;
    if (app.feed?.sessionKey === sessionKey) return reportErrors(revealTarget);
    app.feed?.close();
    isGone = false;
    transcript.clear();
    pages.reset();
    placeholders.show("loading");
    app.feed = new SessionFeed({ gateway, sessionKey, onHistory: showHistory, onEvent: showEvent });
    if (gateway.ready) sync();
  }

  function showHistory(history) {
    const { sessionKey } = history;
    // The user's own session opened by its shared link: use its key, under which events arrive.
    if (isSharedWithMe(app.feed.sessionKey) && !isSharedWithMe(sessionKey)) {
      return location.replace(app.urlFor(sessionKey, targetId));
    }
    const continues = pages.continues(history);
    if (!continues) transcript.clear();
    transcript.show(history);
    if (!continues) pages.reset(history);
    app.emit("history", history);
    placeholders.show(transcript.isEmpty ? "welcome" : null);
    app.sessionView.rewinding = false;
    if (targetId) reportErrors(revealTarget);
    else if (!continues) scroll.toEnd();
  }

  function showEvent(payload) {
    if (payload.change === "rewind") return handleRewind(payload);
    if (pages.hasNewer) return scroll.addUnread(); // the message is stored and will be loaded with its page
    if (transcript.isEmpty) placeholders.show(null);
    applyEvent(transcript, payload);
  }

  /** A message was replaced. Replacements made in this window are already shown. */
  function handleRewind({ keepThrough }) {
    const isLocal = app.sessionView.rewinding;
    app.sessionView.rewinding = false;
    if (!isLocal && !transcript.truncateAfter(keepThrough)) reload();
  }

  /** Show a message that is being sent. */
  function showPending(runId, { message, attachments }, note) {
    if (pages.hasNewer) reload();
    placeholders.show(null);
    transcript.showUserMessage(runId, { content: message, attachments, timestamp: Date.now() }, note);
    scroll.toEnd();
  }

  /** Remove a message that never became a run. Returns false if it did. */
  function removePending(runId) {
    const removed = transcript.removeUnsent(runId);
    if (removed && transcript.isEmpty && app.feed.loaded) placeholders.show("welcome");
    return removed;
  }

  /** Scroll to the message named in the URL. */
  async function revealTarget() {
    if (!targetId || !app.feed.loaded) return;
    const messageId = targetId;
    if (!transcript.find(messageId) && !(await pages.loadAround(messageId))) {
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

  /** The session was deleted or restored, in this or another window. */
  function handleSessionChange({ sessionKey, sessionId, reason }) {
    if (sessionKey !== app.feed.sessionKey || (app.feed.sessionId && sessionId !== app.feed.sessionId)) return;
    if (reason === "restored" || (reason === "created" && placeholders.isErrorShown)) return reload();
    if (reason !== "deleted") return;
    app.feed.sessionId = null; // a new session under this key is a different one
    transcript.clear();
    pages.reset();
    const restore = () => reportErrors(() => gateway.request("sessions.restore", { sessionId }).then(reload));
    const openMain = [texts.toMain, () => app.open(app.mainKey)];
    const title = texts.deleted;
    if (isSharedWithMe(sessionKey)) placeholders.showError({ title, text: texts.deletedByOwner, actions: [openMain] });
    else placeholders.showError({ title, text: texts.deletedText, actions: [[texts.restore, restore], openMain] });
  }

  /** The owner stopped sharing the session, or never shared it. */
  function showUnshared() {
    if (placeholders.isErrorShown) return; // deleted
    app.feed.loaded = false;
    transcript.clear();
    pages.reset();
    placeholders.showError({
      title: texts.unshared,
      text: texts.unsharedText,
      actions: [[texts.toMain, () => app.open(app.mainKey)]],
    });
  }

  function reload() {
    pages.reset();
    reportErrors(() => app.feed.reload());
  }

  function sync() {
    reportErrors(async () => {
      await placeholders.whileCatchingUp(app.feed.sync());
      if (accessTimer) gateway.renew(); // access was granted: reconnect to get the new scopes
    });
  }

  /** The account has no access. The server sends no event when access is granted, so poll. */
  function waitForAccess() {
    placeholders.show(null);
    app.showProblem(texts.mayNotChat);
    clearTimeout(accessTimer);
    accessTimer = setTimeout(() => gateway.ready && sync(), ACCESS_CHECK_MS);
  }

  /** Run an operation and show its errors. Disconnects are ignored, because reconnecting starts over. */
  async function reportErrors(operation) {
    try {
      await operation();
    } catch (error) {
      if (error.code === "DISCONNECTED") return;
      if (error.details?.code === "MISSING_SCOPE") return waitForAccess();
      if (error.code === "NOT_FOUND" && isSharedWithMe(app.feed.sessionKey)) return app.members.load();
      const text = fill(texts.notLoaded, describeError(error, texts));
      if (app.feed.loaded) app.showProblem(text);
      else placeholders.showError({
        title: texts.noConversation,
        text,
        actions: [[texts.retryNow, reload], [texts.toMain, () => app.open(app.mainKey)]],
      });
      if (error.retryable) setTimeout(() => gateway.ready && sync(), error.retryAfterMs ?? RETRY_MS);
    }
  }
}
