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
const connectionNotice = document.getElementById("lost");
const byId = (id) => document.getElementById(id);

for (const name of ["htmx:sendError", "htmx:responseError"]) {
  document.body.addEventListener(name, () => connectionNotice && (connectionNotice.hidden = false));
}
document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.successful && connectionNotice) connectionNotice.hidden = true;
});

if (list) start();

function start() {
  let loading = false;
  let refreshAgain = false;
  const renderBulkDecision = startBulkDecision(list, texts);
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
    for (const card of list.children) if (!card.initialized) initCard(card);
    tidyList();
  });
  document.body.addEventListener("htmx:afterSettle", restoreFocus);
  document.body.addEventListener("htmx:beforeRequest", rememberFocus);
  for (const card of list.children) card.initialized = true;
  if (location.hash) byId(`q-${location.hash.slice(1)}`)?.focus();

  async function refresh() {
    if (loading) return void (refreshAgain = true);
    loading = true;
    try {
      await fetchList();
      if (connectionNotice) connectionNotice.hidden = true;
    } catch {
      if (connectionNotice) connectionNotice.hidden = false;
    }
    loading = false;
    if (refreshAgain) {
      refreshAgain = false;
      refresh();
    }
  }

  async function fetchList() {
    const url = new URL(list.dataset.live, location.href);
    url.searchParams.set("shown", [...list.children].map(({ dataset }) => `${dataset.approval}:${dataset.stamp}`).join(","));
    const response = await fetch(url, { headers: { "HX-Request": "true" } });
    if (response.headers.has("HX-Refresh")) return location.reload(); // signed out
    if (!response.ok) throw new Error(String(response.status));
    merge(new DOMParser().parseFromString(await response.text(), "text/html"));
  }

  function merge(receivedPage) {
    const announcements = [];
    for (const received of receivedPage.querySelectorAll(".question")) {
      const existing = byId(received.id);
      if (existing?.dataset.stamp === received.dataset.stamp) continue;
      if (!existing && ("solo" in list.dataset || received.dataset.status !== "pending")) continue;
      // Another approver voted or extended the request: don't replace the card while its menu is open.
      if (existing && isBeingDecided(existing) && received.dataset.status === "pending") continue;
      const card = document.adoptNode(received);
      const hadFocus = existing?.contains(document.activeElement);
      const wasSelected = existing?.querySelector(".choose")?.checked;
      if (existing) existing.replaceWith(card);
      else list.append(card);
      initCard(card);
      const checkbox = card.querySelector(".choose");
      if (checkbox && wasSelected && !checkbox.disabled) checkbox.checked = true;
      if (hadFocus) card.focus({ preventScroll: true });
      const heading = card.querySelector("h2").textContent.trim();
      const outcome = card.querySelector(".ended strong")?.textContent;
      announcements.push(outcome ? fill(texts.answered, outcome) : existing ? "" : fill(texts.newQuestion, heading));
    }
    announce(announcements.filter(Boolean).slice(0, 3).join(" "));
    tidyList();
  }

  function initCard(card) {
    card.initialized = true;
    window.htmx?.process(card);
    holdUntilRead(card);
  }

  function tidyList() {
    const decided = [...list.querySelectorAll(".question.answered")];
    if (!("solo" in list.dataset)) {
      for (const old of decided.slice(0, -MAX_DECIDED)) if (!old.contains(document.activeElement)) old.remove();
    }
    const pendingCount = list.querySelectorAll(".question:not(.answered)").length;
    const emptyNotice = byId("nothing");
    if (emptyNotice) emptyNotice.hidden = list.children.length > 0;
    const total = document.querySelector("#queue-count [data-total]");
    if (total && Number(list.dataset.page) === 1 && !byId("later")) {
      total.textContent = String(pendingCount);
      total.nextSibling.textContent = ` ${pendingCount === 1 ? texts.oneWaits : texts.manyWait} `;
    }
    renderBulkDecision();
    updateCountdowns(list, texts);
  }
}

/** Whether the user has a decision menu of this card open. */
function isBeingDecided(card) {
  return Boolean(card.querySelector("details.menu-holder[open]"));
}

let submittedCardId = null;

function rememberFocus({ detail }) {
  submittedCardId = detail.elt.matches("form") ? (detail.elt.closest(".question")?.id ?? null) : null;
}

/** A card decided by keyboard was replaced by a new element: move the focus to it. */
function restoreFocus() {
  if (!submittedCardId || (document.activeElement && document.activeElement !== document.body)) return;
  byId(submittedCardId)?.focus({ preventScroll: true });
  submittedCardId = null;
  refreshApprovals();
}

function announce(text) {
  if (text) byId("several-said") && (byId("several-said").textContent = text);
}

function startNotificationButton() {
  const button = byId("notify");
  if (!button || !canNotify()) return;
  const renderButton = () => button.setAttribute("aria-pressed", String(wantsNotifications()));
  button.hidden = false;
  button.addEventListener("click", async () => {
    await toggleNotifications();
    renderButton();
  });
  renderButton();
}
