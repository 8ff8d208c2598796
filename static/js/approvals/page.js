/**
 * The approvals page, kept in sync with the server: new requests are appended, decided ones show who decided.
 *
 * htmx submits decisions and swaps the card. Unchanged cards are left alone, so reading and typing are not interrupted. New cards
 * go last, so nothing moves under the pointer.
 */

import "../shared/relative_times.js";
import { fill } from "../shared/texts.js";
import { canNotify, toggleNotifications, wantsNotifications } from "./badge.js";
import { startBulkDecision } from "./bulk_decision.js";
import { startCountdowns, updateCountdowns } from "./countdown.js";
import { holdUntilRead } from "./read_gate.js";
import { startShortcuts } from "./shortcuts.js";
import { onApprovalChange, refreshApprovals } from "./updates.js";

const MAX_DECIDED = 20; // kept on the page
const texts = Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset));
const list = document.getElementById("questions");
const lost = document.getElementById("lost");
const byId = (id) => document.getElementById(id);

for (const name of ["htmx:sendError", "htmx:responseError"]) document.body.addEventListener(name, () => lost && (lost.hidden = false));
document.body.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && lost && (lost.hidden = true));

if (list) start();

function start() {
  let loading = false;
  let again = false;
  const drawBulk = startBulkDecision(list, texts);
  startShortcuts(list);
  startCountdowns(list, texts);
  for (const card of list.children) holdUntilRead(card);
  startNotificationButton();
  list.addEventListener("focusin", ({ target }) => {
    if (target.matches("[name=uses]")) target.closest("label").querySelector("[type=radio]").checked = true;
  });
  onApprovalChange(({ live }) => {
    const state = byId("queue-state");
    if (state) state.textContent = ` · ${live ? texts.liveNow : texts.notLive}`;
    refresh();
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const card of list.children) if (!card.known) adopt(card);
    tidyList();
  });
  document.body.addEventListener("htmx:afterSettle", restoreFocus);
  document.body.addEventListener("htmx:beforeRequest", rememberFocus);
  for (const card of list.children) card.known = true;
  if (location.hash) byId(`q-${location.hash.slice(1)}`)?.focus();

  async function refresh() {
    if (loading) return void (again = true);
    loading = true;
    try {
      await fetchList();
      if (lost) lost.hidden = true;
    } catch {
      if (lost) lost.hidden = false;
    }
    loading = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  async function fetchList() {
    const address = new URL(list.dataset.live, location.href);
    address.searchParams.set("shown", [...list.children].map(({ dataset }) => `${dataset.approval}:${dataset.stamp}`).join(","));
    const response = await fetch(address, { headers: { "HX-Request": "true" } });
    if (response.headers.has("HX-Refresh")) return location.reload(); // signed out
    if (!response.ok) throw new Error(String(response.status));
    merge(new DOMParser().parseFromString(await response.text(), "text/html"));
  }

  function merge(page) {
    const announcements = [];
    for (const received of page.querySelectorAll(".question")) {
      const shown = byId(received.id);
      if (shown?.dataset.stamp === received.dataset.stamp) continue;
      if (!shown && ("solo" in list.dataset || received.dataset.status !== "pending")) continue;
      if (shown && isBeingDecided(shown) && received.dataset.status === "pending") continue; // don't replace a card while its menu is open just because someone else voted or extended it
      const card = document.adoptNode(received);
      const focused = shown?.contains(document.activeElement);
      const chosen = shown?.querySelector(".choose")?.checked;
      if (shown) shown.replaceWith(card);
      else list.append(card);
      adopt(card);
      const box = card.querySelector(".choose");
      if (box && chosen && !box.disabled) box.checked = true;
      if (focused) card.focus({ preventScroll: true });
      const who = card.querySelector("h2").textContent.trim();
      const ended = card.querySelector(".ended strong")?.textContent;
      announcements.push(ended ? fill(texts.answered, ended) : shown ? "" : fill(texts.newQuestion, who));
    }
    announce(announcements.filter(Boolean).slice(0, 3).join(" "));
    tidyList();
  }

  function adopt(card) {
    card.known = true;
    window.htmx?.process(card);
    holdUntilRead(card);
  }

  function tidyList() {
    const decided = [...list.querySelectorAll(".question.answered")];
    if (!("solo" in list.dataset)) for (const old of decided.slice(0, -MAX_DECIDED)) if (!old.contains(document.activeElement)) old.remove();
    const open = list.querySelectorAll(".question:not(.answered)").length;
    const nothing = byId("nothing");
    if (nothing) nothing.hidden = list.children.length > 0;
    const total = document.querySelector("#queue-count [data-total]");
    if (total && Number(list.dataset.page) === 1 && !byId("later")) {
      total.textContent = String(open);
      total.nextSibling.textContent = ` ${open === 1 ? texts.oneWaits : texts.manyWait} `;
    }
    drawBulk();
    updateCountdowns(list, texts);
  }
}

/** The user has a decision menu of this card open. */
function isBeingDecided(card) {
  return Boolean(card.querySelector("details.menu-holder[open]"));
}

let focusedRequest = null;

function rememberFocus({ detail }) {
  focusedRequest = detail.elt.matches("form") ? (detail.elt.closest(".question")?.id ?? null) : null;
}

/** A card decided by keyboard was replaced by a new element: move the focus to it. */
function restoreFocus() {
  if (!focusedRequest || (document.activeElement && document.activeElement !== document.body)) return;
  byId(focusedRequest)?.focus({ preventScroll: true });
  focusedRequest = null;
  refreshApprovals();
}

function announce(text) {
  if (text) byId("several-said") && (byId("several-said").textContent = text);
}

function startNotificationButton() {
  const button = byId("notify");
  if (!button || !canNotify()) return;
  const draw = () => button.setAttribute("aria-pressed", String(wantsNotifications()));
  button.hidden = false;
  button.addEventListener("click", async () => {
    await toggleNotifications();
    draw();
  });
  draw();
}
