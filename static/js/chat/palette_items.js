/** Palette items {group, name, description?, icon, keys?, run}. Includes only what the user can currently do. */

import { fill } from "../shared/texts.js";
import { formatDate } from "./sessions/dates.js";
import { isMain, isSharedWithMe } from "./sessions/row.js";

const MAX_RECENT = 6; // sessions shown for an empty query

export function sessionItems(app, rows) {
  const group = app.texts.paletteSessions;
  return rows.map((row) => ({
    group,
    id: row.key,
    name: app.sessions.getTitle(row),
    description: row.updatedAt ? formatDate(row.updatedAt) : "",
    icon: row.pinned ? "pin" : "chat",
    run: () => app.open(row.key),
  }));
}

export function recentItems(app) {
  const currentKey = app.sessions.getCurrent().key;
  const rows = app.sessions.rows().filter(({ key }) => key !== currentKey).sort((a, b) => (b.updatedAt ?? 0) - (a.updatedAt ?? 0));
  return sessionItems(app, rows.slice(0, MAX_RECENT)).map((item) => ({ ...item, group: app.texts.paletteRecent }));
}

/** Commands without arguments run immediately; others are inserted into the composer. */
export function commandItems(app, commands) {
  return commands.map(({ name, args, description }) => ({
    group: app.texts.paletteCommands,
    name: [`/${name}`, args?.[0]?.description].filter(Boolean).join(" "),
    description,
    icon: "command",
    run: () => (args ? app.compose(`/${name} `) : app.send({ message: `/${name}` })),
  }));
}

export function actionItems(app, { unfinished, help }) {
  const { texts, sessions, writable } = app;
  const row = sessions.getCurrent();
  const { key } = row;
  const isStored = Boolean(sessions.find(key)) && writable;
  const isMine = !isSharedWithMe(key);
  const others = sessions.agents.length > 1 ? sessions.agents : [];
  const actions = [
    unfinished && app.canWrite() && ["stop", texts.doStop, () => app.stop(), "Esc"],
    ["plus", texts.doNew, () => sessions.startNew()],
    ...others.map(({ id, name }) => ["plus", fill(texts.doNewWith, name), () => sessions.startNew(id)]),
    ["search", texts.doSearch, () => sessions.search()],
    isStored && isMine && ["edit", texts.doRename, () => rename(app, key), "F2"],
    isStored && ["pin", row.pinned ? texts.doUnpin : texts.doPin, () => sessions.pin(key)],
    isStored && ["archive", row.archived ? texts.doUnarchive : texts.doArchive, () => sessions.archive(key)],
    isStored && ["fork", texts.doDuplicate, () => sessions.fork(key)],
    ["link", texts.doCopy, () => sessions.copy(key)],
    isStored && isMine && isMain(key) && ["retry", texts.doReset, () => sessions.reset(key)],
    isStored && isMine && !isMain(key) && ["bin", texts.doDelete, () => sessions.delete(key)],
    isStored && !isMine && ["leave", texts.doLeave, () => sessions.leave(key)],
    writable && isMine && ["thought", texts.doModel, () => chooseModel(app)],
    ["details", app.details.isOpen() ? texts.doHideDetails : texts.doShowDetails, () => app.togglePane("details")],
    ...["light", "dark", "system"].map((theme) => [
      "colours",
      texts[`do${theme.charAt(0).toUpperCase()}${theme.slice(1)}`],
      () => setTheme(theme),
    ]),
    ["keys", texts.doHelp, help, "?"],
    ...accountItems(),
  ];
  return actions.filter(Boolean).map(([icon, name, run, keys]) => ({ group: texts.paletteActions, icon, name, run, keys }));
}

/** Open the session list, which contains the field and is hidden on phones. */
function rename(app, key) {
  app.togglePane("sessions", true);
  app.sessions.rename(key);
}

function chooseModel(app) {
  app.togglePane("details", true);
  document.getElementById("model").focus();
}

function setTheme(theme) {
  document.querySelector(`[data-theme-switch] button[value=${theme}]`).click();
}

/** The entries of the account menu: account, admin if permitted, sign out. */
function accountItems() {
  const menu = document.querySelector(".account-menu .menu");
  const links = [...menu.querySelectorAll("a")].map((link) => ["go", link.textContent.trim(), () => link.click()]);
  const signOut = menu.querySelector("form:not([data-theme-switch]) button[type=submit]");
  return signOut ? [...links, ["go", signOut.textContent.trim(), () => signOut.click()]] : links;
}
