/** The last run of the shown conversation, drawn while it happens; of one that was there before, its events are asked for. */

import { copyOf, put } from "../../shared/elements.js";
import { duration, longTime } from "../../shared/formats.js";
import { reasonWords } from "../../shared/run_reasons.js";
import { Timeline } from "./run_steps.js";

const LOOK_BACK = [200, 1000]; // events; a run with more of them shows its end only
const TICK_MS = 1000;

export function startRunTimeline(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const list = at("timeline");
  let timeline = null;
  let asked = ""; // the run whose earlier events were asked for
  let methods = [];
  let ticking = null;
  let pending = false;

  app.on("connection", ({ name, hello }) => {
    if (name !== "ready") return;
    methods = hello.features?.methods ?? [];
    asked = "";
    if (timeline && !timeline.ended) show(new Timeline(timeline.runId)); // what was told meanwhile is asked for
    complete();
  });
  app.on("session", ({ same }) => same || show(null));
  app.on("history", ({ messages, activeRun, queued }) => {
    const runId = activeRun?.runId ?? queued?.at(-1)?.runId ?? messages.findLast((message) => message.runId)?.runId;
    if (!runId) return show(null);
    if (timeline?.runId !== runId) show(new Timeline(runId));
    complete();
  });
  app.on("event", ({ name, payload }) => {
    if (name !== "agent" || payload.sessionKey !== app.feed.sessionKey || !app.feed.loaded) return;
    const begins = payload.stream === "lifecycle" && (payload.data.phase === "start" || payload.data.phase === "accepted");
    // A run that queues behind another is shown when it has its turn.
    if (begins && payload.runId !== timeline?.runId && (!timeline || timeline.ended || payload.data.phase === "start")) show(new Timeline(payload.runId));
    if (payload.runId !== timeline?.runId) return;
    if (!timeline.whole && payload.seq > timeline.seq + 1) complete(); // its beginning was told before
    if (timeline.add(payload)) soon();
    if (timeline.ended) page();
  });
  app.on("pane", ({ name, open }) => {
    if (name === "details" && open) complete();
    draw();
  });

  function show(next) {
    timeline = next;
    at("run-link").hidden = true;
    soon();
  }

  /** What happened before we listened. */
  async function complete() {
    const run = timeline;
    page();
    if (!run || run.whole || asked === run.runId || !app.details.isOpen() || !gateway.ready) return;
    asked = run.runId;
    const { sessionKey, cursor } = app.feed;
    for (const back of LOOK_BACK) {
      const from = Math.max(0, cursor - back);
      const answer = await gateway.request("sessions.history", { sessionKey, fromStateVersion: from }).catch(() => ({}));
      if (timeline !== run) return;
      run.rebuild((answer.events ?? []).map(({ payload }) => payload).filter(({ runId }) => runId === run.runId));
      if (run.whole || from === 0) break;
    }
    soon();
  }

  /** Its page, where the server has such pages. */
  async function page() {
    const run = timeline;
    if (!run || !methods.includes("runs.get") || !app.details.isOpen() || run.page !== undefined) return;
    run.page = null;
    const answer = await gateway.request("runs.get", { runId: run.runId }).catch(() => ({}));
    run.page = answer.run?.id ?? answer.id ?? null;
    soon();
  }

  function soon() {
    if (pending) return;
    pending = true;
    queueMicrotask(() => {
      pending = false;
      draw();
    });
  }

  function draw() {
    clearInterval(ticking);
    if (!app.details.isOpen()) return;
    at("run-section").hidden = !timeline?.steps.length;
    if (!timeline?.steps.length) return list.replaceChildren();
    const { steps, state, ended } = timeline;
    const badge = at("run-state");
    badge.textContent = { queued: words.rowQueued, running: words.rowRunning, waiting: words.rowWaiting }[state] ?? words[`step${capital(state)}`];
    badge.className = `badge ${{ done: "good", failed: "bad", waiting: "warn", running: "busy" }[state] ?? ""}`;
    while (list.children.length > steps.length) list.lastChild.remove();
    steps.forEach((step, place) => {
      if (!list.children[place]) list.append(copyOf("timeline-step"));
      drawStep(list.children[place], step, steps[place - 1]);
    });
    list.classList.toggle("going", !ended);
    at("run-link").hidden = !timeline.page;
    if (timeline.page) at("run-link").querySelector("a").href = `/runs/${timeline.page}/`;
    if (!ended) ticking = setInterval(tick, TICK_MS);
  }

  function drawStep(item, { name, at: moment, until, tool, detail, bad }, previous) {
    item.dataset.step = name;
    item.classList.toggle("bad", Boolean(bad));
    const label = tool ?? words[`step${capital(name)}`];
    put(item.querySelector(".label"), label);
    put(item.querySelector(".detail"), detail ? reasonWords(detail, words) : until ? duration(until - moment, words) : "");
    const time = item.querySelector("time");
    const first = timeline.steps[0].at;
    const since = moment - first;
    put(time, previous ? `${since < 50 ? "" : "+"}${duration(since, words)}` : new Date(moment).toLocaleTimeString(document.documentElement.lang || undefined));
    time.title = longTime(moment);
  }

  /** A tool that still works counts its seconds. */
  function tick() {
    const step = timeline?.steps.at(-1);
    if (step?.name === "tool" && !step.until) put(list.lastElementChild.querySelector(".detail"), duration(Date.now() - step.at, words));
  }
}

function capital(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
