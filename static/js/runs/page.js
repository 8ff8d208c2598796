/** The run page: a timeline that can be moved to any event, played, and followed live while the run continues. */

import { setText } from "../shared/elements.js";
import { formatCount, formatMoney } from "../shared/formats.js";
import { describeError, fill } from "../shared/texts.js";
import { EventList, formatOffset, summarizeEvent } from "./event_list.js";
import { RunEventSource } from "./event_source.js";
import { Lanes } from "./lanes.js";
import { Recording } from "./recording.js";
import { ReplayView } from "./replay_view.js";

const SUMMARY_MS = 1500; // how often the summary is refreshed during a run
const MAX_DATA_CHARACTERS = 4000;
const STATE_TONES = { running: "busy", waiting: "warn", completed: "good", error: "bad" };

const byId = (id) => document.getElementById(id);
const texts = Object.assign({}, ...[...document.querySelectorAll(".words")].map(({ dataset }) => dataset));
const page = byId("run").dataset;
const recording = new Recording();
const scrub = byId("scrub");
let index = -1; // index of the displayed event
let following = true; // stay at the newest event
let playing = null; // {position, since} while playing
let summaryTimer = null;
let ended = page.ended === "yes";

const lanes = new Lanes({ root: byId("lanes"), names: byId("lane-names"), texts, onSeek: (position) => seek(position) });
const replay = new ReplayView({ root: byId("story"), texts });
const eventList = new EventList({ texts, onSelect: (event) => goTo(recording.events.indexOf(event), { scroll: true }) });

const source = new RunEventSource({
  id: Number(page.id),
  runId: page.runId,
  exportUrl: page.export,
  lastSeq: () => recording.last,
  onEvents(events, state) {
    const wasEnded = ended;
    ended = state.ended;
    if (recording.add(events)) renderNewEvents();
    if (ended !== wasEnded || (events.length && !wasEnded)) refreshSummary(ended);
    updateLiveState();
  },
  onState(name) {
    setText(byId("connection"), { connecting: texts.connecting, live: texts.connected, lost: texts.lost, stored: "" }[name]);
    byId("connection").dataset.state = name;
    updateLiveState();
  },
  onError(error) {
    setText(byId("problem"), fill(texts.notLoaded, describeError(error, texts)));
  },
});

function renderNewEvents() {
  byId("recorder").hidden = false;
  setText(byId("problem"), "");
  drawLanes();
  eventList.setEvents(recording.events);
  // An ended run starts at its end, where the answer is; a live one is followed.
  if (following || index < 0) goTo(recording.events.length - 1, { keepPlaying: true });
  else render();
}

function drawLanes() {
  const last = recording.events.at(-1)?.ts ?? 0;
  lanes.draw(recording.events, last);
  scrub.max = lanes.scale.total;
}

function goTo(next, { keepPlaying = false, scroll = false } = {}) {
  const { events } = recording;
  if (!events.length) return;
  if (!keepPlaying) pause();
  index = Math.max(0, Math.min(next, events.length - 1));
  following = index === events.length - 1;
  scrub.value = lanes.scale.toPosition(events[index].ts);
  render();
  if (scroll) byId("recorder").scrollIntoView({ block: "start" });
}

/** Go to the last event before a position on the time scale. */
function seek(position, { keepPlaying = false } = {}) {
  const time = lanes.scale.toTime(position) + 0.5;
  const after = recording.events.findIndex(({ ts }) => ts > time);
  goTo((after === -1 ? recording.events.length : after) - 1, { keepPlaying });
  scrub.value = position;
  lanes.movePlayhead(position);
}

function render() {
  const { events } = recording;
  const event = events[index];
  const view = recording.viewAt(index);
  lanes.movePlayhead(lanes.scale.toPosition(event.ts));
  setText(byId("clock"), formatOffset(event.ts - events[0].ts, texts));
  setText(byId("place"), fill(texts.place, formatCount(index + 1), formatCount(events.length)));
  scrub.setAttribute(
    "aria-valuetext",
    `${byId("clock").textContent}, ${byId("place").textContent}: ${event.stream} ${summarizeEvent(event)}`,
  );
  replay.render(view, event.ts);
  const state = byId("now-state");
  setText(state, texts[`state${view.state[0].toUpperCase()}${view.state.slice(1)}`]);
  state.className = `badge ${STATE_TONES[view.state] ?? ""}`;
  byId("now-model").textContent = view.model || "–";
  byId("now-tokens").textContent = view.usage.input || view.usage.output
    ? fill(texts.tokens, formatCount(view.usage.input), formatCount(view.usage.output))
    : "–";
  byId("now-cost").textContent = view.usage.costUsd ? formatMoney(view.usage.costUsd) : "–";
  const streamName = texts[`what${event.stream[0].toUpperCase()}${event.stream.slice(1)}`] ?? event.stream;
  const { phase, name, final } = event.data;
  setText(byId("now-title"), `${streamName} · ${phase ?? name ?? (final ? "final" : `#${event.seq}`)}`);
  setText(byId("now-data"), JSON.stringify(event.data, null, 2).slice(0, MAX_DATA_CHARACTERS));
  eventList.mark(event);
  button("back").disabled = button("first").disabled = index === 0;
  button("forward").disabled = button("last").disabled = index === events.length - 1;
  button("tool").disabled = recording.nextTool(index) === -1 && recording.nextTool(-1) === -1;
  button("error").disabled = recording.firstError() === -1;
}

function play() {
  if (!recording.events.length) return;
  if (index === recording.events.length - 1) goTo(0);
  playing = { position: Number(scrub.value), since: performance.now() };
  byId("play").setAttribute("aria-pressed", "true");
  requestAnimationFrame(tick);
}

function pause() {
  playing = null;
  byId("play").setAttribute("aria-pressed", "false");
}

function tick(now) {
  if (!playing) return;
  const position = playing.position + Math.max(0, now - playing.since) * Number(byId("speed").value);
  Object.assign(playing, { position, since: Math.max(now, playing.since) });
  if (position >= lanes.scale.total) return goTo(recording.events.length - 1);
  seek(position, { keepPlaying: true });
  requestAnimationFrame(tick);
}

const actions = {
  first: () => goTo(0),
  back: () => goTo(index - 1),
  play: () => (playing ? pause() : play()),
  forward: () => goTo(index + 1),
  last: () => goTo(recording.events.length - 1),
  tool() {
    const next = recording.nextTool(index);
    goTo(next === -1 ? recording.nextTool(-1) : next); // after the last one, start over
  },
  error: () => goTo(recording.firstError()),
};
const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", t: "tool", e: "error" };

function button(name) {
  return document.querySelector(`[data-do=${name}]`);
}

byId("recorder").addEventListener("click", ({ target }) => {
  const name = target.closest("[data-do]")?.dataset.do;
  if (name) actions[name]();
});

document.addEventListener("keydown", (event) => {
  const name = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  const control = event.target.closest("input:not([type=range]), select, textarea, summary, button, a");
  // Elsewhere these keys scroll the page.
  const scrollsPage = (event.key === "Home" || event.key === "End") && event.target !== scrub;
  if (!name || event.ctrlKey || event.metaKey || event.altKey || byId("recorder").hidden) return;
  if (scrollsPage || (control && (event.key === " " || control.matches("select, input, textarea")))) return;
  if (button(name).disabled) return;
  event.preventDefault();
  actions[name]();
});

scrub.addEventListener("input", () => {
  pause();
  seek(Number(scrub.value));
});

function updateLiveState() {
  const live = !ended && byId("connection").dataset.state === "live";
  byId("live").hidden = !live;
  const stop = byId("stop");
  if (stop) stop.hidden = ended || !live || !source.scopes?.includes("operator.write");
}

byId("stop")?.addEventListener("click", async ({ target }) => {
  target.disabled = true;
  try {
    await source.gateway.request("chat.abort", { sessionKey: page.sessionKey, runId: page.runId });
  } catch (error) {
    setText(byId("problem"), fill(texts.notStopped, describeError(error, texts)));
    target.disabled = false;
  }
});

/** Replace the summary with a newer one rendered by the server. */
function refreshSummary(immediately) {
  if (summaryTimer && !immediately) return;
  clearTimeout(summaryTimer);
  summaryTimer = setTimeout(
    async () => {
      summaryTimer = null;
      const response = await fetch(location.pathname).catch(() => null);
      if (!response?.ok) return;
      const newPage = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const id of ["summary", "calls"]) {
        const section = newPage.getElementById(id);
        if (section) byId(id).replaceWith(document.adoptNode(section));
      }
    },
    immediately ? 0 : SUMMARY_MS,
  );
}

source.start();
