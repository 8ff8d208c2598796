/**
 * Shows relative times such as "5 minutes ago" in every <time data-ago> of the page, including those added later.
 *
 * The title has the exact time. Used on all pages outside the admin, and for approval requests in the chat.
 */

import { everySecond } from "./timing.js";

const language = document.documentElement.lang || undefined;
const relativeFormat = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const exactFormat = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "medium" });
const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7], ["week", Infinity]];

/** 5 seconds ago, in 3 days. */
function formatAge(ms) {
  // Future times are rounded to nearest, so that "in 8 hours" does not become "in 7 hours" a second later.
  const [sign, round] = ms < 0 ? [1, Math.round] : [-1, Math.floor];
  let amount = Math.abs(ms) / 1000;
  for (const [unit, size] of STEPS) {
    if (round(amount) < size) return relativeFormat.format(sign * round(amount), unit);
    amount /= size;
  }
  return "";
}

/** A <time> element for a time in milliseconds since 1970. */
export function createTimeElement(ms) {
  const time = document.createElement("time");
  time.dateTime = new Date(ms).toISOString();
  time.dataset.ago = "";
  time.ariaLive = "off"; // not announced on every change
  update(time);
  return time;
}

function update(time) {
  const timestamp = Date.parse(time.dateTime);
  const text = formatAge(Date.now() - timestamp);
  if (time.textContent === text) return;
  time.textContent = text;
  time.title = exactFormat.format(timestamp);
}

function updateAll() {
  document.querySelectorAll("time[data-ago]").forEach(update);
}

updateAll();
everySecond(updateAll);
