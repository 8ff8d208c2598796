/** Actions on a session. Applied immediately, reverted if the server denies them, with undo where possible. */

import { randomId } from "../../shared/gateway.js";
import { describeError, fill } from "../../shared/texts.js";
import { copyText } from "../markdown/decorations.js";
import { getAgentId, getTitle, isMain, isSharedWithMe } from "./row.js";

const MAX_NAME_CHARACTERS = 40;

export function createSessionActions(app, { current, archive, getRowView, leaveArchive }) {
  const { gateway, texts } = app;
  const newKeys = new Set(); // keys of sessions created here, which are not on the server until the first message
  const findStore = (key) => (archive.find(key) ? archive : current);
  const getShortTitle = (key) => shorten(getTitle(app.sessions.find(key) ?? { key }, texts));

  /** Run an action and show its errors. Returns null on failure. */
  async function reportErrors(action) {
    try {
      return await action();
    } catch (error) {
      app.showProblem(fill(texts.notDone, describeError(error, texts)));
      return null;
    }
  }

  function startNew(agent = getAgentId({ key: app.mainKey })) {
    const key = `agent:${agent}:web-${randomId().slice(0, 12)}`;
    newKeys.add(key);
    leaveArchive();
    app.open(key);
  }

  function rename(key) {
    const row = findStore(key).find(key);
    if (!row || !app.writable || isSharedWithMe(key)) return;
    getRowView(key)?.rename(getTitle(row, texts), (title) => {
      // A label was set by a program and takes precedence over the title.
      const changes = row.label ? { label: title } : { title };
      const request = gateway.request("sessions.patch", { key, ...changes });
      reportErrors(() => findStore(key).applyOptimistically(key, { displayName: title }, request));
    });
  }

  function pin(key) {
    const pinned = !findStore(key).find(key)?.pinned;
    const changes = pinned ? { pinned, rank: -Date.now() } : { pinned };
    return reportErrors(() => findStore(key).applyOptimistically(key, changes, gateway.request("sessions.patch", { key, pinned })));
  }

  async function toggleArchived(key) {
    const store = findStore(key);
    const archived = store !== archive;
    const name = getShortTitle(key);
    const row = store.find(key);
    const response = await reportErrors(() => store.applyOptimistically(
      key,
      { gone: true },
      gateway.request("sessions.patch", { key, archived }),
    ));
    if (!response) return;
    (archived ? archive : current).put({ ...row, archived, isLookedUp: true }); // this may be the current session
    app.showToast(fill(archived ? texts.wasArchived : texts.wasUnarchived, name), { undo: () => undo(key, !archived) });
  }

  async function undo(key, archived) {
    await reportErrors(() => findStore(key).applyOptimistically(
      key,
      { gone: true },
      gateway.request("sessions.patch", { key, archived }),
    ));
    app.sessions.refresh();
  }

  /** Deleting the current session opens its neighbor; undo returns. Sessions of other owners can only be left. */
  async function deleteSession(key) {
    if (isSharedWithMe(key)) return leave(key);
    if (isMain(key) || !app.writable) return;
    const wasCurrent = app.sessions.getCurrent().key === key;
    const name = getShortTitle(key);
    const next = findNeighbor(key);
    const request = gateway.request("sessions.delete", { key });
    if (wasCurrent) app.open(next);
    const response = await reportErrors(() => findStore(key).applyOptimistically(key, { gone: true }, request));
    if (!response) return wasCurrent && app.open(key);
    app.showToast(fill(texts.wasDeleted, name), {
      undo: () =>
        reportErrors(async () => {
          await gateway.request("sessions.restore", { sessionId: response.sessionId });
          app.sessions.refresh();
          if (wasCurrent) app.open(key);
        }),
    });
  }

  /** Leave a shared session after confirmation, because only the owner can undo it. */
  function leave(key) {
    if (!app.writable) return;
    openDialog("leave-dialog", async () => {
      const wasCurrent = app.sessions.getCurrent().key === key;
      const name = getShortTitle(key);
      const request = gateway.request("sessions.share", { key, username: app.username, role: null });
      if (wasCurrent) app.open(findNeighbor(key));
      const response = await reportErrors(() => findStore(key).applyOptimistically(key, { gone: true }, request));
      if (response) app.showToast(fill(texts.wasLeft, name));
      else if (wasCurrent) app.open(key);
    });
  }

  function findNeighbor(key) {
    const keys = app.sessions.rows().map((row) => row.key);
    const index = keys.indexOf(key);
    return keys[index + 1] ?? keys[index - 1] ?? app.mainKey;
  }

  function reset(key) {
    openDialog("reset-dialog", () => reportErrors(() => gateway.request("sessions.reset", { key, reason: "reset" })));
  }

  function openDialog(id, onConfirm) {
    const dialog = document.getElementById(id);
    dialog.returnValue = "";
    dialog.onclose = () => dialog.returnValue && onConfirm();
    dialog.showModal();
  }

  function fork(key) {
    return reportErrors(async () => {
      const copy = await gateway.request("sessions.fork", { key });
      app.sessions.refresh();
      app.open(copy.key);
      app.showToast(texts.wasDuplicated);
    });
  }

  /** Copy a link with the session's ID, which works for all members: for them, the key may name one of their own sessions. */
  async function copy(key) {
    const { id } = app.sessions.find(key) ?? {};
    await copyText(app, `${location.origin}${location.pathname}${app.urlFor(id ? `session:${id}` : key)}`);
  }

  return {
    startNew,
    rename,
    pin,
    archive: toggleArchived,
    delete: deleteSession,
    leave,
    reset,
    fork,
    copy,
    isNew: (key) => newKeys.has(key),
  };
}

/** Shorten a long title for use in a sentence. */
function shorten(title) {
  return title.length > MAX_NAME_CHARACTERS ? `${title.slice(0, MAX_NAME_CHARACTERS - 1).trimEnd()}…` : title;
}
