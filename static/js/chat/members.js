/**
 * Who shares the shown conversation, and what that lets one do in it. Draws nothing; chat/details/members_section.js does.
 *
 * Others use `app.members`: members (null until they are known), isOwner, barred (why one may not write, in words), load(),
 * share(username, role); and app.mayWrite(). They hear "people" {gone} when something in it has changed.
 * Of one's own conversations it asks only while the details are open: nobody else looks at it.
 */

import { fill } from "../shared/texts.js";
import { isForeign } from "./sessions/row.js";

const GONE = []; // nobody: the server knows no such conversation for us

export function startMembers(app) {
  const { gateway, texts } = app;
  const known = new Map(); // key → members
  let key = app.mainKey;
  let pending = null; // the key that is being asked about
  let lastRequest = 0; // the number of the last question: answers to earlier ones come too late

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
  app.on("sessions", loadOnce); // its first message has made it
  app.on("pane", ({ name, open }) => name === "details" && open && load());
  app.on("event", ({ name, payload }) => {
    if (name !== "sessions.changed" || payload.reason === "patched") return;
    if (payload.sessionKey === key) load();
    else known.delete(payload.sessionKey);
  });

  /** Until the server has answered, one may write: it refuses what is not allowed. */
  function findReadOnlyReason(members) {
    if (members === GONE) return texts.unshared;
    const { role } = members.find(({ username }) => username === app.username) ?? {};
    return role === "writer" || role === "owner" ? "" : fill(texts.viewerOnly, members[0].name);
  }

  function loadOnce() {
    if (!known.has(key) && pending !== key) load();
  }

  /** Failing is no news: the next reason asks again. */
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

  /** Nobody can share what nobody has written in. */
  function isStored() {
    return Boolean(app.feed.sessionId || app.sessions.find(key));
  }
}
