/** One row of the session list: title, preview and status. Rendered only if something changed. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { fill } from "../../shared/texts.js";
import { formatDate, formatFullTime } from "./dates.js";

const MARKUP = /\*\*|`+/g; // removed from the preview, which is plain text

/**
 * Keys of the user's own sessions are agent:<agent>:<rest>; <rest> is "main" for the agent's main session. Keys of sessions that
 * others share with the user are session:<id>.
 */
export const isSharedWithMe = (key) => key.startsWith("session:");
export const isMain = (key) => /^agent:[^:]+:main$/.test(key);
export const isSubagent = (key) => /^agent:[^:]+:subagent:/.test(key);
export const getAgentId = ({ key, agentId }) => agentId ?? (isSharedWithMe(key) ? "" : key.split(":")[1]);

export function getTitle({ key, displayName, derivedTitle }, texts) {
  return displayName || derivedTitle || (isMain(key) ? texts.main : isSharedWithMe(key) ? texts.unnamedForeign : texts.unnamed);
}

/** The status of a session as [name, text], or null. */
export function getStatusMark({ status, waitingFor, unread }, texts) {
  if (status === "running") return ["running", texts.rowRunning];
  if (status === "queued") return ["queued", texts.rowQueued];
  if (status === "waiting") return ["waiting", waitingFor === "approval" ? texts.rowApproval : texts.rowWaiting];
  return unread ? ["unread", texts.rowUnread] : null;
}

let lastNameId = 0;

export class SessionRow {
  constructor(app, key) {
    this.app = app;
    this.key = key;
    this.element = cloneTemplate("session-row");
    this.element.dataset.key = key;
    this.link = this.element.querySelector("a");
    this.button = this.element.querySelector(".more");
    this.name = this.element.querySelector(".name");
    this.link.href = app.urlFor(key);
    this.name.id = `session-name-${++lastNameId}`;
    this.button.setAttribute("aria-describedby", this.name.id);
    this.renderedState = "";
  }

  /** @param {{current: boolean, active: boolean, agentName: string}} state `active`: the row that Tab focuses */
  show(row, { current, active, agentName }) {
    const { texts } = this.app;
    const mark = getStatusMark(current && document.visibilityState === "visible" ? { ...row, unread: false } : row, texts);
    const title = getTitle(row, texts);
    const ownerText = isSharedWithMe(row.key) && row.owner ? fill(texts.from, row.owner.actor.label) : "";
    const date = row.updatedAt ? formatDate(row.updatedAt) : "";
    const { lastMessagePreview, pinned, forkedFrom } = row;
    const state = [title, ownerText, lastMessagePreview, mark, date, pinned, forkedFrom, current, active, agentName];
    const renderedState = JSON.stringify(state);
    if (renderedState === this.renderedState) return;
    this.renderedState = renderedState;
    const find = (name) => this.element.querySelector(name);
    if (current) this.link.setAttribute("aria-current", "page");
    else this.link.removeAttribute("aria-current");
    this.link.tabIndex = this.button.tabIndex = active ? 0 : -1;
    this.link.title = title;
    setText(this.name, title);
    setText(find(".agent"), agentName);
    setText(find(".from"), ownerText);
    setText(find(".preview"), row.lastMessagePreview?.replace(MARKUP, ""));
    find(".pin").toggleAttribute("hidden", !row.pinned);
    find(".forked").toggleAttribute("hidden", !row.forkedFrom);
    setText(find("time"), mark ? "" : date); // only one of the two fits
    if (row.updatedAt) find("time").title = formatFullTime(row.updatedAt);
    find(".mark").hidden = !mark;
    this.element.dataset.mark = mark?.[0] ?? "";
    find(".mark .text").textContent = mark?.[1] ?? "";
  }

  /** Replace the title with a text field. Calls `save(title)` if it was changed. */
  rename(title, save) {
    if (this.element.querySelector(".rename")) return;
    const form = cloneTemplate("rename-form");
    const field = form.querySelector("input");
    field.value = title;
    let isDone = false;
    const finish = (shouldSave) => {
      if (isDone) return;
      isDone = true;
      const hadFocus = form.contains(document.activeElement);
      form.remove();
      this.element.classList.remove("renaming");
      if (hadFocus) this.link.focus();
      const newTitle = field.value.trim();
      if (shouldSave && newTitle && newTitle !== title) save(newTitle);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      finish(true);
    });
    form.addEventListener("keydown", (event) => {
      event.stopPropagation(); // arrow keys move in the text, not in the list
      if (event.key !== "Escape") return;
      event.preventDefault();
      finish(false);
    });
    field.addEventListener("blur", () => finish(true));
    this.element.classList.add("renaming");
    this.element.append(form);
    field.focus();
    field.select();
  }
}
