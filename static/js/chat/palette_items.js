/** What the palette offers: {group, name, about?, sign, keys?, run}. Only what can be done at this moment. */

import { isForeign, isMain } from "./sessions/row.js";
import { shortDate } from "./sessions/dates.js";
import { fill } from "../shared/texts.js";

const RECENT = 6; // conversations offered before somebody has written anything

export function sessionItems(app, rows) {
  const group = app.words.paletteSessions;
  return rows.map((row) => ({
    group,
    id: row.key,
    name: app.sessions.titleOf(row),
    about: row.updatedAt ? shortDate(row.updatedAt) : "",
    sign: row.pinned ? "pin" : "chat",
    run: () => app.open(row.key),
  }));
}

export function recentItems(app) {
  const shown = app.sessions.shown().key;
  const rows = app.sessions.rows().filter(({ key }) => key !== shown).sort((a, b) => (b.updatedAt ?? 0) - (a.updatedAt ?? 0));
  return sessionItems(app, rows.slice(0, RECENT)).map((item) => ({ ...item, group: app.words.paletteRecent }));
}

/** A command that takes no words is carried out; one that does waits for them in the composer. */
export function commandItems(app, commands) {
  return commands.map(({ name, args, description }) => ({
    group: app.words.paletteCommands,
    name: [`/${name}`, args?.[0]?.description].filter(Boolean).join(" "),
    about: description,
    sign: "command",
    run: () => (args ? app.compose(`/${name} `) : app.send({ message: `/${name}` })),
  }));
}

export function actionItems(app, { unfinished, help }) {
  const { words, sessions, writable } = app;
  const row = sessions.shown();
  const { key } = row;
  const isStored = Boolean(sessions.find(key)) && writable;
  const isMine = !isForeign(key);
  const others = sessions.agents.length > 1 ? sessions.agents : [];
  const acts = [
    unfinished && app.mayWrite() && ["stop", words.doStop, () => app.stop(), "Esc"],
    ["plus", words.doNew, () => sessions.startNew()],
    ...others.map(({ id, name }) => ["plus", fill(words.doNewWith, name), () => sessions.startNew(id)]),
    ["search", words.doSearch, () => sessions.search()],
    isStored && isMine && ["edit", words.doRename, () => rename(app, key), "F2"],
    isStored && ["pin", row.pinned ? words.doUnpin : words.doPin, () => sessions.pin(key)],
    isStored && ["archive", row.archived ? words.doUnarchive : words.doArchive, () => sessions.archive(key)],
    isStored && ["fork", words.doDuplicate, () => sessions.fork(key)],
    ["link", words.doCopy, () => sessions.copy(key)],
    isStored && isMine && (isMain(key) ? ["retry", words.doReset, () => sessions.reset(key)] : ["bin", words.doDelete, () => sessions.delete(key)]),
    isStored && !isMine && ["leave", words.doLeave, () => sessions.leave(key)],
    writable && isMine && ["thought", words.doModel, () => chooseModel(app)],
    ["details", app.details.isOpen() ? words.doHideDetails : words.doShowDetails, () => app.togglePane("details")],
    ...["light", "dark", "system"].map((theme) => ["colours", words[`do${theme.charAt(0).toUpperCase()}${theme.slice(1)}`], () => colours(theme)]),
    ["keys", words.doHelp, help, "?"],
    ...ofAccount(),
  ];
  return acts.filter(Boolean).map(([sign, name, run, keys]) => ({ group: words.paletteActions, sign, name, run, keys }));
}

/** The field stands in the list, which a phone shows on demand. */
function rename(app, key) {
  app.togglePane("sessions", true);
  app.sessions.rename(key);
}

function chooseModel(app) {
  app.togglePane("details", true);
  document.getElementById("model").focus();
}

function colours(theme) {
  document.querySelector(`[data-theme-switch] button[value=${theme}]`).click();
}

/** Whatever the account's menu leads to: account, admin for those who have it, sign out. */
function ofAccount() {
  const menu = document.querySelector(".account-menu .menu");
  const links = [...menu.querySelectorAll("a")].map((link) => ["go", link.textContent.trim(), () => link.click()]);
  const leave = menu.querySelector("form:not([data-theme-switch]) button[type=submit]");
  return leave ? [...links, ["go", leave.textContent.trim(), () => leave.click()]] : links;
}
