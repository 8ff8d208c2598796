/** The menu of each conversation: one menu, opened at the row's button. */

import { popup } from "../popup_menu.js";
import { isForeign, isMain } from "./row.js";

export function startSessionMenu(app, { root, acts }) {
  const { words } = app;
  const menu = document.getElementById("session-menu");
  const item = (act) => menu.querySelector(`[data-act=${act}]`);
  const shown = popup(menu);
  let key = null;

  root.addEventListener("click", ({ target }) => {
    const button = target.closest(".more");
    if (!button) return;
    key = button.closest("li").dataset.key;
    const row = app.sessions.find(key) ?? { key };
    const isStored = Boolean(row.id ?? row.sessionId ?? app.sessions.find(key));
    item("pin").querySelector(".text").textContent = row.pinned ? words.unpin : words.pin;
    item("archive").querySelector(".text").textContent = row.archived ? words.unarchive : words.archive;
    const isMine = !isForeign(key);
    // Nothing can be done yet to a conversation in which nobody has written; the main one can only be emptied.
    for (const act of ["pin", "archive", "fork"]) item(act).hidden = !isStored || !app.writable;
    item("rename").hidden = !isStored || !isMine || !app.writable;
    item("reset").hidden = !isStored || !isMain(key) || !app.writable;
    item("delete").hidden = !isStored || !isMine || isMain(key) || !app.writable;
    item("leave").hidden = !isStored || isMine || !app.writable;
    menu.querySelector("hr").hidden = ["reset", "delete", "leave"].every((act) => item(act).hidden);
    shown.toggle(button);
  });

  menu.addEventListener("click", ({ target }) => {
    const act = target.closest("[data-act]")?.dataset.act;
    if (act) acts[act](key);
  });
}
