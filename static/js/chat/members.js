/**
 * Members of the current session and what they may do. Renders nothing; see chat/details/members_section.js.
 *
 * Provides `app.members`: list (null until loaded), isOwner, readOnlyReason (why the user can't write), load(),
 * share(username, role); and app.canWrite(). Emits "members" {gone} on changes.
 * Members of the user's own sessions are only loaded while the details pane is open, because nothing else needs them.
 */

import { fill } from "../shared/texts.js";
import { isSharedWithMe } from "./sessions/row.js";

const GONE = []; // the user has no access: for them, the server reports the session as not found

export function startMembers(app) {
  const { gateway, texts } = app;
  const membersByKey = new Map(); // key → members
  let key = app.mainKey;
  let loadingKey = null; // the key being loaded
  let lastRequest = 0; // responses to earlier requests are ignored

  app.members = {
    get list() {
      return membersByKey.get(key) ?? null;
    },
    get isOwner() {
      return !isSharedWithMe(key);
    },
    get readOnlyReason() {
      return isSharedWithMe(key) && membersByKey.has(key) ? findReadOnlyReason(membersByKey.get(key)) : "";
    },
    load,
    share,
  };
  app.canWrite = () => app.writable && !app.members.readOnlyReason;

  app.on("session", (shown) => {
    key = shown.key;
    if (membersByKey.get(key) === GONE) membersByKey.delete(key); // the session may be shared by now
    emitMembers();
    load();
  });
  app.on("connection", ({ name }) => name === "ready" && load());
  app.on("history", loadOnce);
  app.on("sessions", loadOnce); // the first message creates the session
  app.on("pane", ({ name, open }) => name === "details" && open && load());
  app.on("event", ({ name, payload }) => {
    if (name !== "sessions.changed" || payload.reason === "patched") return;
    if (payload.sessionKey === key) load();
    else membersByKey.delete(payload.sessionKey);
  });

  /** Until the server responds, assume that the user can write; the server denies it if they can't. */
  function findReadOnlyReason(members) {
    if (members === GONE) return texts.unshared;
    const { role } = members.find(({ username }) => username === app.username) ?? {};
    return role === "writer" || role === "owner" ? "" : fill(texts.viewerOnly, members[0].name);
  }

  function loadOnce() {
    if (!membersByKey.has(key) && loadingKey !== key) load();
  }

  /** Errors are ignored: the next trigger retries. */
  async function load() {
    if (!gateway.ready || !(isSharedWithMe(key) || (app.details.isOpen() && isStored()))) return;
    const sessionKey = key;
    const requestNumber = ++lastRequest;
    loadingKey = sessionKey;
    try {
      const { members } = await gateway.request("sessions.members", { key: sessionKey });
      if (requestNumber === lastRequest) setMembers(sessionKey, members);
    } catch (error) {
      if (requestNumber === lastRequest && error.code === "NOT_FOUND") {
        setMembers(sessionKey, isSharedWithMe(sessionKey) ? GONE : null);
      }
    }
    if (requestNumber === lastRequest) loadingKey = null;
  }

  async function share(username, role) {
    const sessionKey = key;
    const { members } = await gateway.request("sessions.share", { key: sessionKey, username, role });
    lastRequest++;
    setMembers(sessionKey, members);
  }

  function setMembers(sessionKey, members) {
    if (members) membersByKey.set(sessionKey, members);
    else membersByKey.delete(sessionKey);
    if (sessionKey === key) emitMembers();
  }

  function emitMembers() {
    app.emit("members", { gone: membersByKey.get(key) === GONE });
  }

  /** A session without messages cannot be shared. */
  function isStored() {
    return Boolean(app.feed.sessionId || app.sessions.find(key));
  }
}
