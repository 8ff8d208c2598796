/** One conversation of the list: its title, its last words, its marks. Nothing is redrawn that has not changed. */

import { copyOf, put } from "../../shared/elements.js";
import { longTime, shortDate } from "./dates.js";
import { fill } from "../../shared/texts.js";

const MARKUP = /\*\*|`+/g; // of the last words one line is shown, and as plain text

/** One's own keys are agent:<agent>:<rest>; the agent's main conversation has the rest "main". Somebody else's are session:<id>. */
export const isForeign = (key) => key.startsWith("session:");
export const isMain = (key) => /^agent:[^:]+:main$/.test(key);
export const isSubagent = (key) => /^agent:[^:]+:subagent:/.test(key);
export const agentOf = ({ key, agentId }) => agentId ?? (isForeign(key) ? "" : key.split(":")[1]);

export function titleOf({ key, displayName, derivedTitle }, words) {
  return displayName || derivedTitle || (isMain(key) ? words.main : isForeign(key) ? words.unnamedForeign : words.unnamed);
}

/** What a conversation is doing, in words; null when nothing. */
export function markOf({ status, waitingFor, unread }, words) {
  if (status === "running") return ["running", words.rowRunning];
  if (status === "queued") return ["queued", words.rowQueued];
  if (status === "waiting") return ["waiting", waitingFor === "approval" ? words.rowApproval : words.rowWaiting];
  return unread ? ["unread", words.rowUnread] : null;
}

let numbers = 0;

export class SessionRow {
  constructor(app, key) {
    this.app = app;
    this.key = key;
    this.element = copyOf("session-row");
    this.element.dataset.key = key;
    this.link = this.element.querySelector("a");
    this.button = this.element.querySelector(".more");
    this.name = this.element.querySelector(".name");
    this.link.href = app.address(key);
    this.name.id = `session-name-${++numbers}`;
    this.button.setAttribute("aria-describedby", this.name.id);
    this.drawn = "";
  }

  /** @param {{current: boolean, active: boolean, agentName: string}} more `active`: the one that Tab stops at */
  show(row, { current, active, agentName }) {
    const { words } = this.app;
    const mark = markOf(current && document.visibilityState === "visible" ? { ...row, unread: false } : row, words);
    const title = titleOf(row, words);
    const from = isForeign(row.key) && row.owner ? fill(words.from, row.owner.actor.label) : "";
    const when = row.updatedAt ? shortDate(row.updatedAt) : "";
    const drawn = JSON.stringify([title, from, row.lastMessagePreview, mark, when, row.pinned, row.forkedFrom, current, active, agentName]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const part = (name) => this.element.querySelector(name);
    if (current) this.link.setAttribute("aria-current", "page");
    else this.link.removeAttribute("aria-current");
    this.link.tabIndex = this.button.tabIndex = active ? 0 : -1;
    this.link.title = title;
    put(this.name, title);
    put(part(".agent"), agentName);
    put(part(".from"), from);
    put(part(".preview"), row.lastMessagePreview?.replace(MARKUP, ""));
    part(".pin").toggleAttribute("hidden", !row.pinned);
    part(".forked").toggleAttribute("hidden", !row.forkedFrom);
    put(part("time"), mark ? "" : when); // one of the two: the row is narrow
    if (row.updatedAt) part("time").title = longTime(row.updatedAt);
    part(".mark").hidden = !mark;
    this.element.dataset.mark = mark?.[0] ?? "";
    part(".mark .text").textContent = mark?.[1] ?? "";
  }

  /** A field in place of the title. Calls `save(title)` when it has another one. */
  rename(title, save) {
    if (this.element.querySelector(".rename")) return;
    const form = copyOf("rename-form");
    const field = form.querySelector("input");
    field.value = title;
    let done = false;
    const finish = (keep) => {
      if (done) return;
      done = true;
      const focused = form.contains(document.activeElement);
      form.remove();
      this.element.classList.remove("renaming");
      if (focused) this.link.focus();
      const wanted = field.value.trim();
      if (keep && wanted && wanted !== title) save(wanted);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      finish(true);
    });
    form.addEventListener("keydown", (event) => {
      event.stopPropagation(); // arrows move in the text, and not in the list
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
