/** The page of one run: a recorder that is wound to any event, played, and kept at the end while the run goes on. */

import { put } from "../shared/elements.js";
import { count, money } from "../shared/formats.js";
import { RawEvents, brief, since } from "./event_list.js";
import { Lanes } from "./lanes.js";
import { Story } from "./replay_view.js";
import { Recording } from "./recording.js";
import { RunSource } from "./event_source.js";
import { fill, reason } from "../shared/texts.js";

const SUMMARY_MS = 1500; // how often the server is asked for a new summary while the run goes on
const LONGEST_DATA = 4000;
const COLOURS = { running: "busy", waiting: "warn", completed: "good", error: "bad" };

const at = (id) => document.getElementById(id);
const words = Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset));
const page = at("run").dataset;
const recording = new Recording();
const scrub = at("scrub");
let place = -1; // of the event that is shown
let following = true; // stays at the newest event
let playing = null; // {drawn, since} while it plays
let summaryTimer = null;
let ended = page.ended === "yes";

const lanes = new Lanes({ root: at("lanes"), names: at("lane-names"), words, onSeek: (drawn) => seek(drawn) });
const story = new Story({ root: at("story"), words });
const raw = new RawEvents({ words, onGo: (event) => goTo(recording.events.indexOf(event), { scroll: true }) });

const source = new RunSource({
  id: Number(page.id),
  runId: page.runId,
  exportUrl: page.export,
  lastSeq: () => recording.last,
  onEvents(events, state) {
    const wasEnded = ended;
    ended = state.ended;
    if (recording.add(events)) newEvents();
    if (ended !== wasEnded || (events.length && !wasEnded)) renewSummary(ended);
    liveSigns();
  },
  onState(name) {
    put(at("connection"), { connecting: words.connecting, live: words.connected, lost: words.lost, stored: "" }[name]);
    at("connection").dataset.state = name;
    liveSigns();
  },
  onTrouble(error) {
    put(at("problem"), fill(words.notLoaded, reason(words, error)));
  },
});

function newEvents() {
  at("recorder").hidden = false;
  put(at("problem"), "");
  drawLanes();
  raw.take(recording.events);
  // A run that is over begins at its end, where the answer is; one that goes on is followed.
  if (following || place < 0) goTo(recording.events.length - 1, { keep: true });
  else show();
}

function drawLanes() {
  const last = recording.events.at(-1)?.ts ?? 0;
  lanes.draw(recording.events, last);
  scrub.max = lanes.scale.total;
}

function goTo(next, { keep = false, scroll = false } = {}) {
  const { events } = recording;
  if (!events.length) return;
  if (!keep) pause();
  place = Math.max(0, Math.min(next, events.length - 1));
  following = place === events.length - 1;
  scrub.value = lanes.scale.at(events[place].ts);
  show();
  if (scroll) at("recorder").scrollIntoView({ block: "start" });
}

/** To the last event before a place on the scale. */
function seek(drawn, { keep = false } = {}) {
  const moment = lanes.scale.back(drawn) + 0.5;
  const after = recording.events.findIndex(({ ts }) => ts > moment);
  goTo((after === -1 ? recording.events.length : after) - 1, { keep });
  scrub.value = drawn;
  lanes.point(drawn);
}

function show() {
  const { events } = recording;
  const event = events[place];
  const view = recording.viewAt(place);
  lanes.point(lanes.scale.at(event.ts));
  put(at("clock"), since(event.ts - events[0].ts, words));
  put(at("place"), fill(words.place, count(place + 1), count(events.length)));
  scrub.setAttribute("aria-valuetext", `${at("clock").textContent}, ${at("place").textContent}: ${event.stream} ${brief(event)}`);
  story.draw(view, event.ts);
  const state = at("now-state");
  put(state, words[`state${view.state[0].toUpperCase()}${view.state.slice(1)}`]);
  state.className = `badge ${COLOURS[view.state] ?? ""}`;
  at("now-model").textContent = view.model || "–";
  at("now-tokens").textContent = view.usage.input || view.usage.output ? fill(words.tokens, count(view.usage.input), count(view.usage.output)) : "–";
  at("now-cost").textContent = view.usage.costUsd ? money(view.usage.costUsd) : "–";
  put(at("now-title"), `${words[`what${event.stream[0].toUpperCase()}${event.stream.slice(1)}`] ?? event.stream} · ${event.data.phase ?? event.data.name ?? (event.data.final ? "final" : `#${event.seq}`)}`);
  put(at("now-data"), JSON.stringify(event.data, null, 2).slice(0, LONGEST_DATA));
  raw.mark(event);
  button("back").disabled = button("first").disabled = place === 0;
  button("forward").disabled = button("last").disabled = place === events.length - 1;
  button("tool").disabled = recording.nextTool(place) === -1 && recording.nextTool(-1) === -1;
  button("error").disabled = recording.firstError() === -1;
}

function play() {
  if (!recording.events.length) return;
  if (place === recording.events.length - 1) goTo(0);
  playing = { drawn: Number(scrub.value), since: performance.now() };
  at("play").setAttribute("aria-pressed", "true");
  requestAnimationFrame(tick);
}

function pause() {
  playing = null;
  at("play").setAttribute("aria-pressed", "false");
}

function tick(now) {
  if (!playing) return;
  const drawn = playing.drawn + Math.max(0, now - playing.since) * Number(at("speed").value);
  Object.assign(playing, { drawn, since: Math.max(now, playing.since) });
  if (drawn >= lanes.scale.total) return goTo(recording.events.length - 1);
  seek(drawn, { keep: true });
  requestAnimationFrame(tick);
}

const acts = {
  first: () => goTo(0),
  back: () => goTo(place - 1),
  play: () => (playing ? pause() : play()),
  forward: () => goTo(place + 1),
  last: () => goTo(recording.events.length - 1),
  tool() {
    const next = recording.nextTool(place);
    goTo(next === -1 ? recording.nextTool(-1) : next); // after the last, the first again
  },
  error: () => goTo(recording.firstError()),
};
const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", t: "tool", e: "error" };

function button(name) {
  return document.querySelector(`[data-do=${name}]`);
}

at("recorder").addEventListener("click", ({ target }) => {
  const name = target.closest("[data-do]")?.dataset.do;
  if (name) acts[name]();
});

document.addEventListener("keydown", (event) => {
  const name = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  const typing = event.target.closest("input:not([type=range]), select, textarea, summary, button, a");
  const scrolls = (event.key === "Home" || event.key === "End") && event.target !== scrub; // elsewhere they move the page
  if (!name || event.ctrlKey || event.metaKey || event.altKey || at("recorder").hidden) return;
  if (scrolls || (typing && (event.key === " " || typing.matches("select, input, textarea")))) return;
  if (button(name).disabled) return;
  event.preventDefault();
  acts[name]();
});

scrub.addEventListener("input", () => {
  pause();
  seek(Number(scrub.value));
});

function liveSigns() {
  const live = !ended && at("connection").dataset.state === "live";
  at("live").hidden = !live;
  const stop = at("stop");
  if (stop) stop.hidden = ended || !live || !source.scopes?.includes("operator.write");
}

at("stop")?.addEventListener("click", async ({ target }) => {
  target.disabled = true;
  try {
    await source.gateway.request("chat.abort", { sessionKey: page.sessionKey, runId: page.runId });
  } catch (error) {
    put(at("problem"), fill(words.notStopped, reason(words, error)));
    target.disabled = false;
  }
});

/** The summary is the server's; a newer one takes its place. */
function renewSummary(now) {
  if (summaryTimer && !now) return;
  clearTimeout(summaryTimer);
  summaryTimer = setTimeout(
    async () => {
      summaryTimer = null;
      const answer = await fetch(location.pathname).catch(() => null);
      if (!answer?.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["summary", "calls"]) {
        const part = fresh.getElementById(id);
        if (part) at(id).replaceWith(document.adoptNode(part));
      }
    },
    now ? 0 : SUMMARY_MS,
  );
}

source.start();
