/** Time left to answer, counted on the page. Moments are told by shared/relative_times.js. */

import { everySecond } from "../shared/timing.js";
import { fill } from "../shared/texts.js";

const SOON_MS = 10 * 60_000;

export function timeLeft(ms, words) {
  const seconds = Math.floor(ms / 1000);
  if (seconds <= 0) return words.over;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (days) return fill(words.daysLeft, days, hours % 24);
  if (hours) return fill(words.hoursLeft, hours, minutes % 60);
  return minutes ? fill(words.minutesLeft, minutes) : fill(words.secondsLeft, seconds);
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
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
