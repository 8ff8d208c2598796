/**
 * The page of open questions, kept as it is on the server: new ones are added at the end, answered ones say by whom.
 *
 * htmx sends the answers and swaps their card. A card that has not changed is left alone, so what somebody reads or types in it
 * stays; nothing moves under a pointer, because what is new is younger and comes last.
 */

import "../shared/relative_times.js";
import { canNotify, switchNotices, wantsNotices } from "./badge.js";
import { count, startClock } from "./countdown.js";
import { startKeys } from "./shortcuts.js";
import { holdBack } from "./read_gate.js";
import { startSeveral } from "./bulk_decision.js";
import { lookAgain, onQuestions } from "./updates.js";
import { fill } from "../shared/texts.js";

const MOST_ANSWERED = 20; // that stay on the page
const words = Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset));
const list = document.getElementById("questions");
const lost = document.getElementById("lost");
const at = (id) => document.getElementById(id);

for (const name of ["htmx:sendError", "htmx:responseError"]) document.body.addEventListener(name, () => lost && (lost.hidden = false));
document.body.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && lost && (lost.hidden = true));

if (list) start();

function start() {
  let asking = false;
  let again = false;
  const drawSeveral = startSeveral(list, words);
  startKeys(list);
  startClock(list, words);
  for (const question of list.children) holdBack(question);
  startNotices();
  list.addEventListener("focusin", ({ target }) => {
    if (target.matches("[name=uses]")) target.closest("label").querySelector("[type=radio]").checked = true;
  });
  onQuestions(({ live }) => {
    const state = at("queue-state");
    if (state) state.textContent = ` · ${live ? words.liveNow : words.notLive}`;
    refresh();
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const question of list.children) if (!question.known) adopt(question);
    tidy();
  });
  document.body.addEventListener("htmx:afterSettle", keepFocus);
  document.body.addEventListener("htmx:beforeRequest", noteFocus);
  for (const question of list.children) question.known = true;
  if (location.hash) at(`q-${location.hash.slice(1)}`)?.focus();

  async function refresh() {
    if (asking) return void (again = true);
    asking = true;
    try {
      await fetchList();
      if (lost) lost.hidden = true;
    } catch {
      if (lost) lost.hidden = false;
    }
    asking = false;
    if (again) {
      again = false;
      refresh();
    }
  }

  async function fetchList() {
    const address = new URL(list.dataset.live, location.href);
    address.searchParams.set("shown", [...list.children].map(({ dataset }) => `${dataset.approval}:${dataset.stamp}`).join(","));
    const answer = await fetch(address, { headers: { "HX-Request": "true" } });
    if (answer.headers.has("HX-Refresh")) return location.reload(); // signed out
    if (!answer.ok) throw new Error(String(answer.status));
    merge(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }

  function merge(page) {
    const news = [];
    for (const told of page.querySelectorAll(".question")) {
      const shown = at(told.id);
      if (shown?.dataset.stamp === told.dataset.stamp) continue;
      if (!shown && ("solo" in list.dataset || told.dataset.status !== "pending")) continue;
      if (shown && isBusy(shown) && told.dataset.status === "pending") continue; // somebody votes or extends while they type
      const question = document.adoptNode(told);
      const focused = shown?.contains(document.activeElement);
      const chosen = shown?.querySelector(".choose")?.checked;
      if (shown) shown.replaceWith(question);
      else list.append(question);
      adopt(question);
      const box = question.querySelector(".choose");
      if (box && chosen && !box.disabled) box.checked = true;
      if (focused) question.focus({ preventScroll: true });
      const who = question.querySelector("h2").textContent.trim();
      const ended = question.querySelector(".ended strong")?.textContent;
      news.push(ended ? fill(words.answered, ended) : shown ? "" : fill(words.newQuestion, who));
    }
    say(news.filter(Boolean).slice(0, 3).join(" "));
    tidy();
  }

  function adopt(question) {
    question.known = true;
    window.htmx?.process(question);
    holdBack(question);
  }

  function tidy() {
    const answered = [...list.querySelectorAll(".question.answered")];
    if (!("solo" in list.dataset)) for (const old of answered.slice(0, -MOST_ANSWERED)) if (!old.contains(document.activeElement)) old.remove();
    const open = list.querySelectorAll(".question:not(.answered)").length;
    const nothing = at("nothing");
    if (nothing) nothing.hidden = list.children.length > 0;
    const total = document.querySelector("#queue-count [data-total]");
    if (total && Number(list.dataset.page) === 1 && !at("later")) {
      total.textContent = String(open);
      total.nextSibling.textContent = ` ${open === 1 ? words.oneWaits : words.manyWait} `;
    }
    drawSeveral();
    count(list, words);
  }
}

/** Somebody is in the middle of an answer to it. */
function isBusy(question) {
  return Boolean(question.querySelector("details.menu-holder[open]"));
}

let answering = null;

function noteFocus({ detail }) {
  answering = detail.elt.matches("form") ? (detail.elt.closest(".question")?.id ?? null) : null;
}

/** The card that was answered by the keyboard is another element now; the focus stays at its place. */
function keepFocus() {
  if (!answering || (document.activeElement && document.activeElement !== document.body)) return;
  at(answering)?.focus({ preventScroll: true });
  answering = null;
  lookAgain();
}

function say(text) {
  if (text) at("several-said") && (at("several-said").textContent = text);
}

function startNotices() {
  const button = at("notify");
  if (!button || !canNotify()) return;
  const draw = () => button.setAttribute("aria-pressed", String(wantsNotices()));
  button.hidden = false;
  button.addEventListener("click", async () => {
    await switchNotices();
    draw();
  });
  draw();
}
