/**
 * The chat page: one `app` object, handed to every part of the page, and the order in which the parts start.
 *
 * What the parts may use of it:
 *   app.gateway, app.words, app.account, app.username, app.explain, app.letAsk, app.mainKey, app.writable (may this account write), app.feed (of the shown session)
 *   app.people, app.mayWrite(): who shares the shown conversation, and whether one may write in it (members.js)
 *   app.on(name, listener(detail)) and app.emit(name, detail), short for events of app.bus:
 *     session {key, same, messageId}  another conversation, or (`same`) another message of it, is shown
 *     history <answer of chat.history>      it has been loaded
 *     runs {unfinished, waiting, stopping}  how many runs have not ended, whether one waits, whether they are being stopped
 *     event {name, payload}                 every event of the gateway
 *     connection {name, …}                  a state of the connection, see shared/gateway.js
 *     pane {name, open}                     "sessions" or "details" was opened or closed
 *     people {gone}                         who shares it has changed; gone: it is not shared with us (any more)
 *     selected-model {model}                somebody chose another model for this conversation
 *   app.say(text) to screen readers, app.problem(text), app.notice(text, {undo}), app.setTitle(text)
 *   app.send({message, attachments, replaces}), app.stop(), app.open(key, messageId), app.address(key, messageId)
 *   app.compose(text, {attachments}) puts text into the composer, beside what stands there; app.focusField() (chat/composer/message_form.js)
 *   app.togglePane(name, open)
 */

import { lendSocket } from "../approvals/updates.js";
import { startComposer } from "./composer/message_form.js";
import { startConnection } from "./connection_status.js";
import { startConversation } from "./messages/session_view.js";
import { startDetails } from "./details/pane.js";
import { Gateway, randomId } from "../shared/gateway.js";
import { startHalted } from "./freeze_banner.js";
import { startOutbox } from "./composer/outbox.js";
import { startPalette } from "./palette.js";
import { startPanes } from "./panes.js";
import { startPeople } from "./members.js";
import { startSessionList } from "./sessions/list.js";
import { startToasts } from "./toasts.js";
import { startViewport } from "./viewport.js";

const MAIN = "agent:main:main";
const CALM_MS = 150;

const at = (id) => document.getElementById(id);
const bus = new EventTarget();
const news = []; // not read out yet

const app = {
  bus,
  words: Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset)),
  account: at("main").dataset.account,
  username: at("main").dataset.username,
  explain: at("main").dataset.explain ?? "", // address of the page that explains a tool call, for those who may open it
  letAsk: at("main").dataset.letAsk ?? "", // address of the page where an agent may be let ask, for those who may do that
  mainKey: MAIN,
  feed: null,
  writable: true,

  on(name, listener) {
    bus.addEventListener(name, ({ detail }) => listener(detail));
  },

  emit(name, detail = {}) {
    bus.dispatchEvent(new CustomEvent(name, { detail }));
  },

  /** Read out by screen readers. Not the log itself: a growing answer would be read word by word. What comes together is one text. */
  say(text) {
    if (!news.length) setTimeout(() => (at("announce").textContent = news.splice(0).join(" ")), CALM_MS);
    news.push(text);
  },

  problem(text) {
    at("problem").textContent = text;
    at("problem").hidden = !text;
  },

  setTitle(text) {
    at("title").textContent = text;
    document.title = `${text} · Clawsite`;
  },

  address(key, messageId = null) {
    return `#${encodeURIComponent(key)}${messageId ? `/${encodeURIComponent(messageId)}` : ""}`;
  },

  open(key, messageId = null) {
    const address = app.address(key, messageId);
    if (location.hash === address) show();
    else location.hash = address;
  },
};

app.gateway = new Gateway({
  url: `${location.protocol === "https:" ? "wss:" : "ws:"}//${location.host}/ws`,
  client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
  caps: ["tool-events"],
  onState: (state) => app.emit("connection", state),
  onEvent: (name, payload) => app.emit("event", { name, payload }),
  onGap: () => app.conversation.sync(),
});

/** What the address says: #key or #key/message. Keys are encoded, so a bare slash ends them. */
function show() {
  const [key, messageId] = location.hash.slice(1).split("/").map(decoded);
  const shown = key || MAIN;
  app.emit("session", { key: shown, same: app.feed?.sessionKey === shown, messageId: messageId || null });
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // typed by hand, with a bare percent sign
  }
}

// Listeners are called in this order, so the conversation has changed before the list and the composer hear of it.
startViewport();
lendSocket(app);
startToasts(app);
startPanes(app);
startConnection(app);
startConversation(app);
startPeople(app);
startHalted(app);
startOutbox(app);
startSessionList(app);
startDetails(app);
startComposer(app);
startPalette(app);
addEventListener("hashchange", show);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part of the address behind # is a conversation's
  at("main").focus();
});

show();
app.gateway.start();
