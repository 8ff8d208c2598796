/**
 * Refreshes the dashboard every few seconds and its usage card every minute. The server renders the texts; this script only inserts them.
 *
 * Hidden pages do not poll. After a failure the page polls less often and shows that its data is out of date.
 */

import { createTimeElement } from "../shared/relative_times.js";

const INTERVAL_MS = 4000;
const MAX_INTERVAL_MS = 60_000;
const USAGE_INTERVAL_MS = 60_000; // the last 30 days: slower to compute, and they change slowly
const SVG = "http://www.w3.org/2000/svg";

const page = document.getElementById("dashboard");
let interval = INTERVAL_MS;
let timer = null;
let usageLoadedAt = Date.now();

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const withUsage = Date.now() - usageLoadedAt >= USAGE_INTERVAL_MS;
    const response = await fetch(page.dataset.live + (withUsage ? "?used" : ""), { headers: { Accept: "application/json" } });
    if (response.redirected || response.status === 403) return location.reload(); // signed out, or permission revoked
    if (!response.ok) throw new Error(String(response.status));
    const now = await response.json();
    show(now);
    if (withUsage) showUsage(now.used);
    interval = INTERVAL_MS;
  } catch {
    interval = Math.min(interval * 2, MAX_INTERVAL_MS);
  }
  document.getElementById("dash-lost").hidden = interval === INTERVAL_MS;
  timer = setTimeout(refresh, interval);
}

function show(now) {
  document.getElementById("dash-at").textContent = now.at;
  showFreezes(document.getElementById("dash-stopped"), now.stopped);
  for (const { key, value, remark, tone } of now.tiles) {
    const tile = page.querySelector(`[data-tile="${key}"]`);
    if (!tile) continue;
    const [number, note] = tile.querySelectorAll("dd");
    tile.dataset.tone = tone;
    setText(number, value);
    setText(note, remark);
  }
  for (const body of page.querySelectorAll("[data-rows]")) showRows(body, now[body.dataset.rows]);
}

/** Insert the card the server rendered, unless the keyboard focus is inside it. */
function showUsage(html) {
  usageLoadedAt = Date.now();
  const old = document.getElementById("dash-used-card");
  if (old.contains(document.activeElement)) return;
  const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("dash-used-card");
  fresh.querySelector("details").open = old.querySelector("details").open;
  old.replaceWith(fresh);
}

/** Rebuild the rows only if their content changed, so that a focused link keeps the focus. */
function showRows(body, wanted) {
  const content = JSON.stringify(wanted);
  if (body.content === content) return;
  body.content = content;
  const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  body.replaceChildren(
    ...wanted.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map(createCell));
      return row;
    }),
  );
  const table = body.closest("table");
  table.hidden = !wanted.length;
  table.nextElementSibling.hidden = Boolean(wanted.length);
  if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

/** Same markup as templates/freezes/_active_freezes.html. */
function showFreezes(banner, wanted) {
  const content = JSON.stringify(wanted);
  if (banner.content === content) return;
  banner.content = content;
  banner.replaceChildren(
    ...wanted.map(({ scope, words: text, at, resume, href }) => {
      const line = document.createElement("p");
      line.className = "stopped-now";
      line.dataset.scope = scope;
      line.append(`${text} · `, createTimeElement(Date.parse(at)));
      if (href) {
        const link = document.createElement("a");
        link.href = href;
        link.textContent = resume;
        line.append(" ", link);
      }
      return line;
    }),
  );
}

function createCell({ text, tone, href, share, at }) {
  const cell = document.createElement("td");
  if (tone) cell.dataset.tone = tone;
  if (href) {
    const link = document.createElement("a");
    link.className = "text-link";
    link.href = href;
    link.textContent = text;
    cell.append(link);
  } else if (at) cell.append(createTimeElement(Date.parse(at)));
  else cell.textContent = text;
  if (share) cell.append(createBar(share));
  return cell;
}

function createBar(share) {
  const drawing = document.createElementNS(SVG, "svg");
  const rect = document.createElementNS(SVG, "rect");
  drawing.setAttribute("class", "dash-share");
  drawing.setAttribute("aria-hidden", "true");
  rect.setAttribute("width", `${share}%`);
  rect.setAttribute("height", "100%");
  drawing.append(rect);
  return drawing;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

document.addEventListener("visibilitychange", () => document.hidden || refresh());
timer = setTimeout(refresh, INTERVAL_MS);
