/** Formats times, durations, tokens, money and sizes in the page's language. */

import { fill } from "./texts.js";

const language = document.documentElement.lang || undefined;
const timeFormat = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const dayFormat = new Intl.DateTimeFormat(language, { day: "numeric", month: "short" });
const dayAndYearFormat = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", year: "numeric" });
const fullFormat = new Intl.DateTimeFormat(language, { dateStyle: "full", timeStyle: "medium" });
const numberFormat = new Intl.NumberFormat(language);
const percentFormat = new Intl.NumberFormat(language, { style: "percent" });
const compactFormat = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });

/** 14:05 today, 3 May 14:05 this year, 3 May 2024 14:05 in earlier years. */
export function formatTime(ms, now = new Date()) {
  const date = new Date(ms);
  if (date.toDateString() === now.toDateString()) return timeFormat.format(date);
  return `${(date.getFullYear() === now.getFullYear() ? dayFormat : dayAndYearFormat).format(date)} ${timeFormat.format(date)}`;
}

export function formatFullTime(ms) {
  return fullFormat.format(new Date(ms));
}

/** < 0.1 s, 0.4 s, 12 s, 2 min 5 s, 3 h 20 min. */
export function formatDuration(ms, texts) {
  const seconds = ms / 1000;
  if (seconds < 0.05) return fill(texts.seconds, "< 0.1");
  if (seconds < 9.95) return fill(texts.seconds, (Math.round(seconds * 10) / 10).toLocaleString(language));
  if (seconds < 60) return fill(texts.seconds, Math.round(seconds));
  if (seconds < 3600) return fill(texts.minutes, Math.floor(seconds / 60), Math.floor(seconds % 60));
  return fill(texts.hours, Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60));
}

/** 90 days, 8 hours, 15 minutes: in the largest unit without a remainder. */
export function formatPeriod(seconds) {
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, size]) => seconds % size === 0);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format(seconds / size);
}

/** The time since the start of something unfinished: whole seconds, so that the text does not jitter. */
export function formatElapsed(ms, texts) {
  return ms < 60_000 ? fill(texts.seconds, Math.floor(ms / 1000)) : formatDuration(ms, texts);
}

export function formatCount(number) {
  return numberFormat.format(number);
}

export function formatShortCount(number) {
  return number < 10_000 ? numberFormat.format(number) : compactFormat.format(number);
}

/** 0.427 → 42 %, in the page's language. */
export function formatPercent(fraction) {
  return percentFormat.format(Math.floor(fraction * 100) / 100);
}

/** Four decimals below 10 cents: an answer often costs less than a cent. */
export function formatMoney(usd) {
  if (usd > 0 && usd < 0.0001) return "< $0.0001";
  return `$${usd.toLocaleString(language, { minimumFractionDigits: 2, maximumFractionDigits: usd < 0.1 ? 4 : 2 })}`;
}

export function formatSize(bytes) {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  const unitIndex = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  const format = new Intl.NumberFormat(language, {
    style: "unit",
    unit: units[unitIndex],
    unitDisplay: "short",
    maximumFractionDigits: 1,
  });
  return format.format(bytes / 1000 ** unitIndex);
}
