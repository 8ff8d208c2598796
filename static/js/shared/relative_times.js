/**
 * Moments say how long ago they are, or how soon: every <time data-ago> of the page, also one that is added later.
 *
 * The exact moment is its title. All pages outside the admin tell moments so, and the chat those of its questions.
 */

import { everySecond } from "./timing.js";

const language = document.documentElement.lang || undefined;
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const exact = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "medium" });
const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7], ["week", Infinity]];

/** 5 seconds ago, in 3 days. */
function age(ms) {
  const [sign, round] = ms < 0 ? [1, Math.round] : [-1, Math.floor]; // eight hours from now is not "in 7 hours" a second later
  let amount = Math.abs(ms) / 1000;
  for (const [unit, size] of STEPS) {
    if (round(amount) < size) return relative.format(sign * round(amount), unit);
    amount /= size;
  }
  return "";
}

/** An element for a moment, in milliseconds since 1970. */
export function momentOf(ms) {
  const time = document.createElement("time");
  time.dateTime = new Date(ms).toISOString();
  time.dataset.ago = "";
  time.ariaLive = "off"; // it is not read out each time it changes, wherever it stands
  tell(time);
  return time;
}

function tell(time) {
  const then = Date.parse(time.dateTime);
  const text = age(Date.now() - then);
  if (time.textContent === text) return;
  time.textContent = text;
  time.title = exact.format(then);
}

function tellAll() {
  document.querySelectorAll("time[data-ago]").forEach(tell);
}

tellAll();
everySecond(tellAll);
