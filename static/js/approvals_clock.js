/** Time left and time ago, counted on the page. */

import { everySecond } from "./painter.js";
import { fill } from "./words.js";

const SOON_MS = 10 * 60_000;
const language = document.documentElement.lang || undefined;
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7], ["week", Infinity]];

export function timeLeft(ms, words) {
  const seconds = Math.floor(ms / 1000);
  if (seconds <= 0) return words.over;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (days) return fill(words.daysLeft, days, hours % 24);
  if (hours) return fill(words.hoursLeft, hours, minutes % 60);
  return minutes ? fill(words.minutesLeft, minutes) : fill(words.secondsLeft, seconds);
}

export function timeAgo(ms) {
  let amount = Math.max(0, Math.floor(ms / 1000));
  for (const [unit, size] of STEPS) {
    if (amount < size) return relative.format(-amount, unit);
    amount = Math.floor(amount / size);
  }
  return "";
}

/** Keep all of them right, under `root`, from now on. */
export function startClock(root, words) {
  const tick = () => count(root, words);
  tick();
  return everySecond(tick);
}

export function count(root, words) {
  const now = Date.now();
  for (const question of root.querySelectorAll(".question[data-expires]")) {
    const left = question.querySelector("[data-left]");
    if (!left) continue;
    const rest = Number(question.dataset.expires) - now;
    write(left, timeLeft(rest, words));
    if (rest < 60_000 || (question.classList.contains("urgent") && rest < SOON_MS)) question.classList.add("urgent");
  }
  for (const time of root.querySelectorAll("time[data-ago]")) write(time, timeAgo(now - Date.parse(time.dateTime)));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
