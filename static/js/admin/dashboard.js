/**
 * The dashboard told anew every few seconds, its plots every minute. The words come from the server; here they are put in their places.
 *
 * A page that nobody looks at does not ask. After a failure it asks less often, and says that what it shows is old.
 */

import { momentOf } from "../shared/relative_times.js";

const EVERY_MS = 4000;
const LONGEST_MS = 60_000;
const USED_EVERY_MS = 60_000; // the last thirty days: counting them takes the server longer, and they change slowly
const SVG = "http://www.w3.org/2000/svg";

const page = document.getElementById("dashboard");
let pause = EVERY_MS;
let timer = null;
let usedAt = Date.now();

async function tell() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const withUsed = Date.now() - usedAt >= USED_EVERY_MS;
    const answer = await fetch(page.dataset.live + (withUsed ? "?used" : ""), { headers: { Accept: "application/json" } });
    if (answer.redirected || answer.status === 403) return location.reload(); // signed out, or not allowed any more
    if (!answer.ok) throw new Error(String(answer.status));
    const now = await answer.json();
    show(now);
    if (withUsed) showUsed(now.used);
    pause = EVERY_MS;
  } catch {
    pause = Math.min(pause * 2, LONGEST_MS);
  }
  document.getElementById("dash-lost").hidden = pause === EVERY_MS;
  timer = setTimeout(tell, pause);
}

function show(now) {
  document.getElementById("dash-at").textContent = now.at;
  stops(document.getElementById("dash-stopped"), now.stopped);
  for (const { key, value, remark, tone } of now.tiles) {
    const tile = page.querySelector(`[data-tile="${key}"]`);
    if (!tile) continue;
    const [number, words] = tile.querySelectorAll("dd");
    tile.dataset.tone = tone;
    write(number, value);
    write(words, remark);
  }
  for (const body of page.querySelectorAll("[data-rows]")) rows(body, now[body.dataset.rows]);
}

/** As the server has drawn it. Who is reading there with the keyboard is left alone until the next time. */
function showUsed(html) {
  usedAt = Date.now();
  const old = document.getElementById("dash-used-card");
  if (old.contains(document.activeElement)) return;
  const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("dash-used-card");
  fresh.querySelector("details").open = old.querySelector("details").open;
  old.replaceWith(fresh);
}

/** Rows are made anew only when something in them is new: a link that has the focus keeps it. */
function rows(body, wanted) {
  const said = JSON.stringify(wanted);
  if (body.said === said) return;
  body.said = said;
  const focused = body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  body.replaceChildren(
    ...wanted.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map(cellOf));
      return row;
    }),
  );
  const table = body.closest("table");
  table.hidden = !wanted.length;
  table.nextElementSibling.hidden = Boolean(wanted.length);
  if (focused) [...body.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
}

/** As templates/stops/_banner.html has them. */
function stops(banner, wanted) {
  const said = JSON.stringify(wanted);
  if (banner.said === said) return;
  banner.said = said;
  banner.replaceChildren(
    ...wanted.map(({ scope, words, at, resume, href }) => {
      const line = document.createElement("p");
      line.className = "stopped-now";
      line.dataset.scope = scope;
      line.append(`${words} · `, momentOf(Date.parse(at)));
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

function cellOf({ text, tone, href, share, at }) {
  const cell = document.createElement("td");
  if (tone) cell.dataset.tone = tone;
  if (href) {
    const link = document.createElement("a");
    link.className = "text-link";
    link.href = href;
    link.textContent = text;
    cell.append(link);
  } else if (at) cell.append(momentOf(Date.parse(at)));
  else cell.textContent = text;
  if (share) cell.append(bar(share));
  return cell;
}

function bar(share) {
  const drawing = document.createElementNS(SVG, "svg");
  const rect = document.createElementNS(SVG, "rect");
  drawing.setAttribute("class", "dash-share");
  drawing.setAttribute("aria-hidden", "true");
  rect.setAttribute("width", `${share}%`);
  rect.setAttribute("height", "100%");
  drawing.append(rect);
  return drawing;
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

document.addEventListener("visibilitychange", () => document.hidden || tell());
timer = setTimeout(tell, EVERY_MS);
