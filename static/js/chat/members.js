/**
 * Members of the current session and what they may do. Draws nothing; see chat/details/members_section.js.
 *
 * Provides `app.members`: list (null until loaded), isOwner, readOnlyReason (why the user cannot write), load(), share(username, role);
 * and app.canWrite(). Emits "members" {gone} on changes.
 * Members of the user's own sessions are only loaded while the details pane is open, because nothing else needs them.
 */

import { fill } from "../shared/texts.js";
import { isForeign } from "./sessions/row.js";

const GONE = []; // no access: the server does not know the session for this user

export function startMembers(app) {
  const { gateway, texts } = app;
  const known = new Map(); // key → members
  let key = app.mainKey;
  let pending = null; // the key being loaded
  let lastRequest = 0; // number of the last request: responses to earlier ones are ignored

  app.members = {
    get list() {
      return known.get(key) ?? null;
    },
    get isOwner() {
      return !isForeign(key);
    },
    get readOnlyReason() {
      return isForeign(key) && known.has(key) ? findReadOnlyReason(known.get(key)) : "";
    },
    load,
    share,
  };
  app.canWrite = () => app.writable && !app.members.readOnlyReason;

  app.on("session", (shown) => {
    key = shown.key;
    if (known.get(key) === GONE) known.delete(key); // it may be shared by now
    notify();
    load();
  });
  app.on("connection", ({ name }) => name === "ready" && load());
  app.on("history", loadOnce);
  app.on("sessions", loadOnce); // the first message creates the session
  app.on("pane", ({ name, open }) => name === "details" && open && load());
  app.on("event", ({ name, payload }) => {
    if (name !== "sessions.changed" || payload.reason === "patched") return;
    if (payload.sessionKey === key) load();
    else known.delete(payload.sessionKey);
  });

  /** Until the server responds, assume that the user can write: it denies what is not allowed. */
  function findReadOnlyReason(members) {
    if (members === GONE) return texts.unshared;
    const { role } = members.find(({ username }) => username === app.username) ?? {};
    return role === "writer" || role === "owner" ? "" : fill(texts.viewerOnly, members[0].name);
  }

  function loadOnce() {
    if (!known.has(key) && pending !== key) load();
  }

  /** Errors are ignored: the next trigger retries. */
  async function load() {
    if (!gateway.ready || !(isForeign(key) || (app.details.isOpen() && isStored()))) return;
    const wanted = key;
    const number = ++lastRequest;
    pending = wanted;
    try {
      const { members } = await gateway.request("sessions.members", { key: wanted });
      if (number === lastRequest) setMembers(wanted, members);
    } catch (error) {
      if (number === lastRequest && error.code === "NOT_FOUND") setMembers(wanted, isForeign(wanted) ? GONE : null);
    }
    if (number === lastRequest) pending = null;
  }

  async function share(username, role) {
    const wanted = key;
    const { members } = await gateway.request("sessions.share", { key: wanted, username, role });
    lastRequest++;
    setMembers(wanted, members);
  }

  function setMembers(wanted, members) {
    if (members) known.set(wanted, members);
    else known.delete(wanted);
    if (wanted === key) notify();
  }

  function notify() {
    app.emit("members", { gone: known.get(key) === GONE });
  }

  /** A session without messages cannot be shared. */
  function isStored() {
    return Boolean(app.feed.sessionId || app.sessions.find(key));
  }
}
