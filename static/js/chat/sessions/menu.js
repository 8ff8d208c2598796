/** The menu of a session row: one shared menu, opened by the row's button. */

import { createPopupMenu } from "../popup_menu.js";
import { isMain, isSharedWithMe } from "./row.js";

export function startSessionMenu(app, { root, actions }) {
  const { texts } = app;
  const menu = document.getElementById("session-menu");
  const item = (action) => menu.querySelector(`[data-act=${action}]`);
  const popupMenu = createPopupMenu(menu);
  let key = null;

  root.addEventListener("click", ({ target }) => {
    const button = target.closest(".more");
    if (!button) return;
    key = button.closest("li").dataset.key;
    const row = app.sessions.find(key) ?? { key };
    const isStored = Boolean(row.id ?? row.sessionId ?? app.sessions.find(key));
    item("pin").querySelector(".text").textContent = row.pinned ? texts.unpin : texts.pin;
    item("archive").querySelector(".text").textContent = row.archived ? texts.unarchive : texts.archive;
    const isMine = !isSharedWithMe(key);
    // A session without messages has no actions; the main session can only be reset.
    for (const action of ["pin", "archive", "fork"]) item(action).hidden = !isStored || !app.writable;
    item("rename").hidden = !isStored || !isMine || !app.writable;
    item("reset").hidden = !isStored || !isMain(key) || !app.writable;
    item("delete").hidden = !isStored || !isMine || isMain(key) || !app.writable;
    item("leave").hidden = !isStored || isMine || !app.writable;
    menu.querySelector("hr").hidden = ["reset", "delete", "leave"].every((action) => item(action).hidden);
    popupMenu.toggle(button);
  });

  menu.addEventListener("click", ({ target }) => {
    const action = target.closest("[data-act]")?.dataset.act;
    if (action) actions[action](key);
  });
}
