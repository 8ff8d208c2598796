/**
 * Who shares the shown conversation, and what that lets one do in it. Draws nothing; chat/details/members_section.js does.
 *
 * Others use `app.people`: members (null until they are known), isOwner, barred (why one may not write, in words), ask(),
 * share(username, role); and app.mayWrite(). They hear "people" {gone} when something in it has changed.
 * Of one's own conversations it asks only while the details are open: nobody else looks at it.
 */

import { isForeign } from "./sessions/row.js";
import { fill } from "../shared/texts.js";

const GONE = []; // nobody: the server knows no such conversation for us

export function startPeople(app) {
  const { gateway, words } = app;
  const known = new Map(); // key → members
  let key = app.mainKey;
  let pending = null; // the key that is being asked about
  let asked = 0; // the number of the last question: answers to earlier ones come too late

  app.people = {
    get members() {
      return known.get(key) ?? null;
    },
    get isOwner() {
      return !isForeign(key);
    },
    get barred() {
      return isForeign(key) && known.has(key) ? reasonNotToWrite(known.get(key)) : "";
    },
    ask,
    share,
  };
  app.mayWrite = () => app.writable && !app.people.barred;

  app.on("session", (shown) => {
    key = shown.key;
    if (known.get(key) === GONE) known.delete(key); // it may be shared by now
    tell();
    ask();
  });
  app.on("connection", ({ name }) => name === "ready" && ask());
  app.on("history", askOnce);
  app.on("sessions", askOnce); // its first message has made it
  app.on("pane", ({ name, open }) => name === "details" && open && ask());
  app.on("event", ({ name, payload }) => {
    if (name !== "sessions.changed" || payload.reason === "patched") return;
    if (payload.sessionKey === key) ask();
    else known.delete(payload.sessionKey);
  });

  /** Until the server has answered, one may write: it refuses what is not allowed. */
  function reasonNotToWrite(members) {
    if (members === GONE) return words.unshared;
    const { role } = members.find(({ username }) => username === app.username) ?? {};
    return role === "writer" || role === "owner" ? "" : fill(words.viewerOnly, members[0].name);
  }

  function askOnce() {
    if (!known.has(key) && pending !== key) ask();
  }

  /** Failing is no news: the next reason asks again. */
  async function ask() {
    if (!gateway.ready || !(isForeign(key) || (app.details.isOpen() && isStored()))) return;
    const wanted = key;
    const number = ++asked;
    pending = wanted;
    try {
      const { members } = await gateway.request("sessions.members", { key: wanted });
      if (number === asked) learn(wanted, members);
    } catch (error) {
      if (number === asked && error.code === "NOT_FOUND") learn(wanted, isForeign(wanted) ? GONE : null);
    }
    if (number === asked) pending = null;
  }

  async function share(username, role) {
    const wanted = key;
    const { members } = await gateway.request("sessions.share", { key: wanted, username, role });
    asked++;
    learn(wanted, members);
  }

  function learn(wanted, members) {
    if (members) known.set(wanted, members);
    else known.delete(wanted);
    if (wanted === key) tell();
  }

  function tell() {
    app.emit("people", { gone: known.get(key) === GONE });
  }

  /** Nobody can share what nobody has written in. */
  function isStored() {
    return Boolean(app.feed.sessionId || app.sessions.find(key));
  }
}
