/** Countdowns to the expiration of requests. shared/relative_times.js formats other times. */

import { fill } from "../shared/texts.js";
import { everySecond } from "../shared/timing.js";

const URGENT_MS = 10 * 60_000;

export function formatTimeLeft(ms, texts) {
  const seconds = Math.floor(ms / 1000);
  if (seconds <= 0) return texts.over;
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  if (days) return fill(texts.daysLeft, days, hours % 24);
  if (hours) return fill(texts.hoursLeft, hours, minutes % 60);
  return minutes ? fill(texts.minutesLeft, minutes) : fill(texts.secondsLeft, seconds);
}

/** Update every countdown under `root` now and once per second. */
export function startCountdowns(root, texts) {
  const tick = () => updateCountdowns(root, texts);
  tick();
  return everySecond(tick);
}

export function updateCountdowns(root, texts) {
  const now = Date.now();
  for (const card of root.querySelectorAll(".question[data-expires]")) {
    const countdown = card.querySelector("[data-left]");
    if (!countdown) continue;
    const msLeft = Number(card.dataset.expires) - now;
    setText(countdown, formatTimeLeft(msLeft, texts));
    if (msLeft < 60_000 || (card.classList.contains("urgent") && msLeft < URGENT_MS)) card.classList.add("urgent");
  }
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
