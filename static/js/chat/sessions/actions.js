/** What one can do with a conversation. Shown at once; taken back when the server says no; undone where it can be. */

import { randomId } from "../../shared/gateway.js";
import { copyText } from "../markdown/decorations.js";
import { agentOf, isForeign, isMain, titleOf } from "./row.js";
import { fill, reason } from "../../shared/texts.js";

const LONGEST_NAME = 40; // characters

export function sessionActs(app, { current, archive, rowOf, leaveArchive }) {
  const { gateway, words } = app;
  const made = new Set(); // keys from here, which are on no server until somebody writes
  const storeOf = (key) => (archive.find(key) ? archive : current);
  const nameOf = (key) => shortened(titleOf(app.sessions.find(key) ?? { key }, words));

  /** Somebody wants it: what goes wrong is told. */
  async function attempt(work) {
    try {
      return await work();
    } catch (error) {
      app.problem(fill(words.notDone, reason(words, error)));
      return null;
    }
  }

  function startNew(agent = agentOf({ key: app.mainKey })) {
    const key = `agent:${agent}:web-${randomId().slice(0, 12)}`;
    made.add(key);
    leaveArchive();
    app.open(key);
  }

  function rename(key) {
    const row = storeOf(key).find(key);
    if (!row || !app.writable || isForeign(key)) return;
    rowOf(key)?.rename(titleOf(row, words), (title) => {
      // A label is the name that programs gave it, and goes before the title.
      const changes = row.label ? { label: title } : { title };
      const asking = gateway.request("sessions.patch", { key, ...changes });
      attempt(() => storeOf(key).expect(key, { displayName: title }, asking));
    });
  }

  function pin(key) {
    const pinned = !storeOf(key).find(key)?.pinned;
    const changes = pinned ? { pinned, rank: -Date.now() } : { pinned };
    return attempt(() => storeOf(key).expect(key, changes, gateway.request("sessions.patch", { key, pinned })));
  }

  async function archiveIt(key) {
    const store = storeOf(key);
    const archived = store !== archive;
    const name = nameOf(key);
    const row = store.find(key);
    const answer = await attempt(() => store.expect(key, { gone: true }, gateway.request("sessions.patch", { key, archived })));
    if (!answer) return;
    (archived ? archive : current).put({ ...row, archived, apart: true }); // it may be the one that is shown
    app.notice(fill(archived ? words.wasArchived : words.wasUnarchived, name), { undo: () => undo(key, !archived) });
  }

  async function undo(key, archived) {
    await attempt(() => storeOf(key).expect(key, { gone: true }, gateway.request("sessions.patch", { key, archived })));
    app.sessions.refresh();
  }

  /** Who deletes what they look at goes on to the next; undo brings them back. Somebody else's can only be left. */
  async function remove(key) {
    if (isForeign(key)) return leave(key);
    if (isMain(key) || !app.writable) return;
    const wasShown = app.sessions.shown().key === key;
    const name = nameOf(key);
    const next = neighbourOf(key);
    const asking = gateway.request("sessions.delete", { key });
    if (wasShown) app.open(next);
    const answer = await attempt(() => storeOf(key).expect(key, { gone: true }, asking));
    if (!answer) return wasShown && app.open(key);
    app.notice(fill(words.wasDeleted, name), {
      undo: () =>
        attempt(async () => {
          await gateway.request("sessions.restore", { sessionId: answer.sessionId });
          app.sessions.refresh();
          if (wasShown) app.open(key);
        }),
    });
  }

  /** Asked for first: only its owner can undo it. */
  function leave(key) {
    if (!app.writable) return;
    ask("leave-dialog", async () => {
      const wasShown = app.sessions.shown().key === key;
      const name = nameOf(key);
      const asking = gateway.request("sessions.share", { key, username: app.username, role: null });
      if (wasShown) app.open(neighbourOf(key));
      const answer = await attempt(() => storeOf(key).expect(key, { gone: true }, asking));
      if (answer) app.notice(fill(words.wasLeft, name));
      else if (wasShown) app.open(key);
    });
  }

  function neighbourOf(key) {
    const keys = app.sessions.rows().map((row) => row.key);
    const place = keys.indexOf(key);
    return keys[place + 1] ?? keys[place - 1] ?? app.mainKey;
  }

  function reset(key) {
    ask("reset-dialog", () => attempt(() => gateway.request("sessions.reset", { key, reason: "reset" })));
  }

  function ask(id, act) {
    const dialog = document.getElementById(id);
    dialog.returnValue = "";
    dialog.onclose = () => dialog.returnValue && act();
    dialog.showModal();
  }

  function fork(key) {
    return attempt(async () => {
      const copy = await gateway.request("sessions.fork", { key });
      app.sessions.refresh();
      app.open(copy.key);
      app.notice(words.wasDuplicated);
    });
  }

  /** By its id, under which everybody in it finds it: among theirs, our key may be another one's. */
  async function copy(key) {
    const { id } = app.sessions.find(key) ?? {};
    await copyText(app, `${location.origin}${location.pathname}${app.address(id ? `session:${id}` : key)}`);
  }

  return { startNew, rename, pin, archive: archiveIt, delete: remove, leave, reset, fork, copy, isNew: (key) => made.has(key) };
}

/** For a sentence: the first words of a long title. */
function shortened(title) {
  return title.length > LONGEST_NAME ? `${title.slice(0, LONGEST_NAME - 1).trimEnd()}…` : title;
}
