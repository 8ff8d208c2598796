/** The number of pending approval requests: next to the link, in the window title and, if enabled, as a notification. */

import { formatCount } from "../shared/formats.js";
import { fill } from "../shared/texts.js";
import { onApprovalChange } from "./updates.js";

const STORAGE_KEY = "clawsite-notify-approvals"; // per browser
const COUNT_PREFIX = /^\(\d+\+?\) /;

const badge = document.querySelector("[data-open-questions]");
let latestAt = null; // when the newest known request was created
let pending = Number(badge?.querySelector(".number").textContent.replace(/\D/g, "") ?? 0);

async function refresh({ notified }) {
  if (document.hidden && !notified && !wantsNotifications()) return;
  const response = await fetch(badge.dataset.address, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!response?.ok || response.redirected) return;
  const data = await response.json();
  const newestAt = data.newest?.askedAt ?? 0;
  // Compare with the newest request seen so far: once that is decided, an older one becomes the newest pending request.
  const isNew = latestAt !== null && newestAt > latestAt;
  pending = data.count;
  latestAt = Math.max(latestAt ?? 0, newestAt);
  render();
  if (isNew && document.hidden) notify(data.newest);
}

function render() {
  badge.hidden = !pending;
  badge.querySelector(".number").textContent = formatCount(pending);
  updateTitle();
}

/** Other scripts set the title too, so the prefix is restored whenever it changes. */
function updateTitle() {
  const plainTitle = document.title.replace(COUNT_PREFIX, "");
  const title = pending ? `(${pending}) ${plainTitle}` : plainTitle;
  if (document.title !== title) document.title = title;
}

/** Names the requester but not the command: a notification has no room for a full command, and commands are never shown in part. */
function notify({ id, agent, person }) {
  if (!wantsNotifications()) return;
  const notification = new Notification(fill(badge.dataset.asks, agent), {
    body: fill(badge.dataset.for, person),
    tag: `approval-${id}`,
  });
  notification.addEventListener("click", () => {
    window.focus();
    location.href = `/approvals/${id}/`;
  });
}

export function canNotify() {
  return "Notification" in window && Notification.permission !== "denied";
}

export function wantsNotifications() {
  return canNotify() && Notification.permission === "granted" && localStorage.getItem(STORAGE_KEY) === "yes";
}

/** @returns whether notifications are now enabled */
export async function toggleNotifications() {
  if (wantsNotifications()) localStorage.removeItem(STORAGE_KEY);
  else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(STORAGE_KEY, "yes");
  return wantsNotifications();
}

if (badge) {
  new MutationObserver(updateTitle).observe(document.querySelector("title"), { childList: true });
  updateTitle();
  onApprovalChange(refresh);
  refresh({ notified: true });
}
