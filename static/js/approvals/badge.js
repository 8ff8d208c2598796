/** How many questions wait: beside the link to them, in the window's title, and as a notification for who has asked for one. */

import { onQuestions } from "./updates.js";
import { count } from "../shared/formats.js";
import { fill } from "../shared/texts.js";

const WANTED = "clawsite-notify-approvals"; // in this browser
const PREFIX = /^\(\d+\+?\) /;

const badge = document.querySelector("[data-open-questions]");
let latest = null; // when the newest question that we know of was asked
let waiting = Number(badge?.querySelector(".number").textContent.replace(/\D/g, "") ?? 0);

async function look({ told }) {
  if (document.hidden && !told && !wantsNotices()) return;
  const answer = await fetch(badge.dataset.address, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return;
  const now = await answer.json();
  const asked = now.newest?.askedAt ?? 0;
  const isNew = latest !== null && asked > latest; // and not only what is left once the newest was answered
  waiting = now.count;
  latest = Math.max(latest ?? 0, asked);
  draw();
  if (isNew && document.hidden) notify(now.newest);
}

function draw() {
  badge.hidden = !waiting;
  badge.querySelector(".number").textContent = count(waiting);
  retitle();
}

/** Other scripts set the title too, so it is put right whenever it changes. */
function retitle() {
  const plain = document.title.replace(PREFIX, "");
  const wanted = waiting ? `(${waiting}) ${plain}` : plain;
  if (document.title !== wanted) document.title = wanted;
}

/** Who asks, and not what: a notification has no room for all of a command, and nothing is shown in part. */
function notify({ id, agent, person }) {
  if (!wantsNotices()) return;
  const notice = new Notification(fill(badge.dataset.asks, agent), { body: fill(badge.dataset.for, person), tag: `approval-${id}` });
  notice.addEventListener("click", () => {
    window.focus();
    location.href = `/approvals/${id}/`;
  });
}

export function canNotify() {
  return "Notification" in window && Notification.permission !== "denied";
}

export function wantsNotices() {
  return canNotify() && Notification.permission === "granted" && localStorage.getItem(WANTED) === "yes";
}

/** @returns whether they are on from now */
export async function switchNotices() {
  if (wantsNotices()) localStorage.removeItem(WANTED);
  else if ((await Notification.requestPermission()) === "granted") localStorage.setItem(WANTED, "yes");
  return wantsNotices();
}

if (badge) {
  new MutationObserver(retitle).observe(document.querySelector("title"), { childList: true });
  retitle();
  onQuestions(look);
  look({ told: true });
}
