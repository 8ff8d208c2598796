/**
 * The chat page: creates the `app` object shared by all parts of the page and starts them in order.
 *
 * What the parts can use:
 *   app.gateway, app.texts, app.account, app.username, app.explainUrl, app.allowRequestsUrl, app.mainKey
 *   app.writable (the account can write), app.feed (of the current session)
 *   app.members, app.canWrite(): members of the current session, and whether the user can write in it (members.js)
 *   app.on(name, listener(detail)) and app.emit(name, detail), shortcuts for events of app.bus:
 *     session {key, same, messageId}        another session, or (`same`) another message of it, is shown
 *     history <response of chat.history>    the history was loaded
 *     runs {unfinished, waiting, stopping}  number of unfinished runs, whether one is waiting, whether they are being stopped
 *     event {name, payload}                 any event of the gateway
 *     connection {name, …}                  connection state, see shared/gateway.js
 *     pane {name, open}                     "sessions" or "details" was opened or closed
 *     members {gone}                        the members changed; gone: not, or no longer, shared with this user
 *     selected-model {model}                the user chose another model for this session
 *   app.announce(text) to screen readers, app.showProblem(text), app.showToast(text, {undo}), app.setTitle(text)
 *   app.send({message, attachments, replaces}), app.stop(), app.open(key, messageId), app.urlFor(key, messageId)
 *   app.compose(text, {attachments}) adds text to the composer; app.focusField() (composer/message_form.js)
 *   app.togglePane(name, open)
 */

import { useChatSocket } from "../approvals/updates.js";
import { Gateway, randomId } from "../shared/gateway.js";
import { startComposer } from "./composer/message_form.js";
import { startOutbox } from "./composer/outbox.js";
import { startConnectionStatus } from "./connection_status.js";
import { startDetailsPane } from "./details/pane.js";
import { startFreezeBanner } from "./freeze_banner.js";
import { startMembers } from "./members.js";
import { startSessionView } from "./messages/session_view.js";
import { startPalette } from "./palette.js";
import { startPanes } from "./panes.js";
import { startSessionList } from "./sessions/list.js";
import { startToasts } from "./toasts.js";
import { startViewport } from "./viewport.js";

const MAIN = "agent:main:main";
const DEBOUNCE_MS = 150;

const byId = (id) => document.getElementById(id);
const bus = new EventTarget();
const pendingAnnouncements = [];

const app = {
  bus,
  texts: Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset)),
  account: byId("main").dataset.account,
  username: byId("main").dataset.username,
  explainUrl: byId("main").dataset.explain ?? "", // page that explains a tool call, for users with permission
  // Page where an agent can be allowed to request commands, for users with permission.
  allowRequestsUrl: byId("main").dataset.letAsk ?? "",
  mainKey: MAIN,
  feed: null,
  writable: true,

  on(name, listener) {
    bus.addEventListener(name, ({ detail }) => listener(detail));
  },

  emit(name, detail = {}) {
    bus.dispatchEvent(new CustomEvent(name, { detail }));
  },

  /**
   * Announce to screen readers, joining texts in quick succession. The log is not a live region: a streamed answer would be read
   * word by word.
   */
  announce(text) {
    if (!pendingAnnouncements.length) {
      setTimeout(() => (byId("announce").textContent = pendingAnnouncements.splice(0).join(" ")), DEBOUNCE_MS);
    }
    pendingAnnouncements.push(text);
  },

  showProblem(text) {
    byId("problem").textContent = text;
    byId("problem").hidden = !text;
  },

  setTitle(text) {
    byId("title").textContent = text;
    document.title = `${text} · Clawsite`;
  },

  urlFor(key, messageId = null) {
    return `#${encodeURIComponent(key)}${messageId ? `/${encodeURIComponent(messageId)}` : ""}`;
  },

  open(key, messageId = null) {
    const hash = app.urlFor(key, messageId);
    if (location.hash === hash) show();
    else location.hash = hash;
  },
};

app.gateway = new Gateway({
  url: `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`,
  client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
  caps: ["tool-events"],
  onState: (state) => app.emit("connection", state),
  onEvent: (name, payload) => app.emit("event", { name, payload }),
  onGap: () => app.sessionView.sync(),
});

/** Show what the URL names: #key or #key/message. Keys are encoded, so a slash ends them. */
function show() {
  const [key, messageId] = location.hash.slice(1).split("/").map(decodeSafely);
  const shown = key || MAIN;
  app.emit("session", { key: shown, same: app.feed?.sessionKey === shown, messageId: messageId || null });
}

function decodeSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand, with a bare percent sign
  }
}

// Listeners run in this order, so the session view changes before the list and the composer are notified.
startViewport();
useChatSocket(app);
startToasts(app);
startPanes(app);
startConnectionStatus(app);
startSessionView(app);
startMembers(app);
startFreezeBanner(app);
startOutbox(app);
startSessionList(app);
startDetailsPane(app);
startComposer(app);
startPalette(app);
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL fragment names a session
  byId("main").focus();
});

show();
app.gateway.start();
