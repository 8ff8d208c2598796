/** Formats dates in lists in the page's language; older dates are less precise. */

export { formatFullTime } from "../../shared/formats.js";

const language = document.documentElement.lang || undefined;
const DAY_MS = 86_400_000;
const timeFormat = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const weekdayFormat = new Intl.DateTimeFormat(language, { weekday: "short" });
const dayFormat = new Intl.DateTimeFormat(language, { day: "numeric", month: "short" });
const monthFormat = new Intl.DateTimeFormat(language, { month: "short", year: "numeric" });

/** Calendar days between two times. */
function daysAgo(ms, now) {
  const getStartOfDay = (date) => new Date(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((getStartOfDay(now) - getStartOfDay(new Date(ms))) / DAY_MS);
}

/** "today", "yesterday", "week" or "older" */
export function getDateGroup(ms, now = new Date()) {
  const days = daysAgo(ms, now);
  if (days <= 0) return "today";
  return days === 1 ? "yesterday" : days < 8 ? "week" : "older";
}

/** 14:05 today, Tue this week, 3 May this year, May 2024 in earlier years. */
export function formatDate(ms, now = new Date()) {
  const days = daysAgo(ms, now);
  if (days <= 1) return timeFormat.format(ms);
  if (days < 7) return weekdayFormat.format(ms);
  return (new Date(ms).getFullYear() === now.getFullYear() ? dayFormat : monthFormat).format(ms);
}
