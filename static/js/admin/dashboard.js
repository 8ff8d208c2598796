/**
 * Refreshes the dashboard every few seconds and its usage card every minute. The server provides all texts.
 *
 * Hidden pages do not poll. After a failure the page polls less often and shows that its data is out of date.
 */

import { createTimeElement } from "../shared/relative_times.js";

const INTERVAL_MS = 4000;
const MAX_INTERVAL_MS = 60_000;
const USAGE_INTERVAL_MS = 60_000; // 30-day usage takes longer to compute and changes slowly
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
    const data = await response.json();
    render(data);
    if (withUsage) renderUsage(data.used);
    interval = INTERVAL_MS;
  } catch {
    interval = Math.min(interval * 2, MAX_INTERVAL_MS);
  }
  document.getElementById("dash-lost").hidden = interval === INTERVAL_MS;
  timer = setTimeout(refresh, interval);
}

function render(data) {
  document.getElementById("dash-at").textContent = data.at;
  renderFreezes(document.getElementById("dash-stopped"), data.stopped);
  for (const { key, value, remark, tone } of data.tiles) {
    const tile = page.querySelector(`[data-tile="${key}"]`);
    if (!tile) continue;
    const [number, note] = tile.querySelectorAll("dd");
    tile.dataset.tone = tone;
    setText(number, value);
    setText(note, remark);
  }
  for (const body of page.querySelectorAll("[data-rows]")) renderRows(body, data[body.dataset.rows]);
}

/** Insert the card the server rendered, unless the keyboard focus is inside it. */
function renderUsage(html) {
  usageLoadedAt = Date.now();
  const oldCard = document.getElementById("dash-used-card");
  if (oldCard.contains(document.activeElement)) return;
  const newCard = new DOMParser().parseFromString(html, "text/html").getElementById("dash-used-card");
  newCard.querySelector("details").open = oldCard.querySelector("details").open;
  oldCard.replaceWith(newCard);
}

/** Rebuild the rows only if their content changed, so that a focused link keeps the focus. */
function renderRows(body, rows) {
  const serialized = JSON.stringify(rows);
  if (body.content === serialized) return;
  body.content = serialized;
  const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  body.replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map(createCell));
      return row;
    }),
  );
  const table = body.closest("table");
  table.hidden = !rows.length;
  table.nextElementSibling.hidden = Boolean(rows.length);
  if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

/** Same markup as templates/freezes/_active_freezes.html. */
function renderFreezes(banner, rows) {
  const serialized = JSON.stringify(rows);
  if (banner.content === serialized) return;
  banner.content = serialized;
  banner.replaceChildren(
    ...rows.map(({ scope, words: text, at, resume, href }) => {
      const paragraph = document.createElement("p");
      paragraph.className = "stopped-now";
      paragraph.dataset.scope = scope;
      paragraph.append(`${text} · `, createTimeElement(Date.parse(at)));
      if (href) {
        const link = document.createElement("a");
        link.href = href;
        link.textContent = resume;
        paragraph.append(" ", link);
      }
      return paragraph;
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
  const svg = document.createElementNS(SVG, "svg");
  const rect = document.createElementNS(SVG, "rect");
  svg.setAttribute("class", "dash-share");
  svg.setAttribute("aria-hidden", "true");
  rect.setAttribute("width", `${share}%`);
  rect.setAttribute("height", "100%");
  svg.append(rect);
  return svg;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

document.addEventListener("visibilitychange", () => document.hidden || refresh());
timer = setTimeout(refresh, INTERVAL_MS);
