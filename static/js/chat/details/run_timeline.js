/** The last run of the current session, drawn live; for earlier runs, the events are loaded. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { formatDuration, formatFullTime } from "../../shared/formats.js";
import { describeReason } from "../../shared/run_reasons.js";
import { RunSteps } from "./run_steps.js";

const LOOK_BACK_EVENTS = [200, 1000]; // longer runs only show their end
const TICK_MS = 1000;

export function startRunTimeline(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const list = byId("timeline");
  let current = null;
  let loadedRunId = ""; // the run whose earlier events were loaded
  let methods = [];
  let ticking = null;
  let pending = false;

  app.on("connection", ({ name, hello }) => {
    if (name !== "ready") return;
    methods = hello.features?.methods ?? [];
    loadedRunId = "";
    if (current && !current.ended) show(new RunSteps(current.runId)); // load what was missed
    loadEarlier();
  });
  app.on("session", ({ same }) => same || show(null));
  app.on("history", ({ messages, activeRun, queued }) => {
    const runId = activeRun?.runId ?? queued?.at(-1)?.runId ?? messages.findLast((message) => message.runId)?.runId;
    if (!runId) return show(null);
    if (current?.runId !== runId) show(new RunSteps(runId));
    loadEarlier();
  });
  app.on("event", ({ name, payload }) => {
    if (name !== "agent" || payload.sessionKey !== app.feed.sessionKey || !app.feed.loaded) return;
    const begins = payload.stream === "lifecycle" && (payload.data.phase === "start" || payload.data.phase === "accepted");
    // A queued run is shown when it starts.
    if (begins && payload.runId !== current?.runId && (!current || current.ended || payload.data.phase === "start")) show(new RunSteps(payload.runId));
    if (payload.runId !== current?.runId) return;
    if (!current.isComplete && payload.seq > current.seq + 1) loadEarlier(); // its first events were sent before
    if (current.add(payload)) refreshSoon();
    if (current.ended) loadPageId();
  });
  app.on("pane", ({ name, open }) => {
    if (name === "details" && open) loadEarlier();
    draw();
  });

  function show(next) {
    current = next;
    byId("run-link").hidden = true;
    refreshSoon();
  }

  /** Load the events from before the page subscribed. */
  async function loadEarlier() {
    const run = current;
    loadPageId();
    if (!run || run.isComplete || loadedRunId === run.runId || !app.details.isOpen() || !gateway.ready) return;
    loadedRunId = run.runId;
    const { sessionKey, cursor } = app.feed;
    for (const back of LOOK_BACK_EVENTS) {
      const from = Math.max(0, cursor - back);
      const response = await gateway.request("sessions.history", { sessionKey, fromStateVersion: from }).catch(() => ({}));
      if (current !== run) return;
      run.rebuild((response.events ?? []).map(({ payload }) => payload).filter(({ runId }) => runId === run.runId));
      if (run.isComplete || from === 0) break;
    }
    refreshSoon();
  }

  /** Link to the run's page if the server has run pages. */
  async function loadPageId() {
    const run = current;
    if (!run || !methods.includes("runs.get") || !app.details.isOpen() || run.pageId !== undefined) return;
    run.pageId = null;
    const response = await gateway.request("runs.get", { runId: run.runId }).catch(() => ({}));
    run.pageId = response.run?.id ?? response.id ?? null;
    refreshSoon();
  }

  function refreshSoon() {
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
    byId("run-section").hidden = !current?.steps.length;
    if (!current?.steps.length) return list.replaceChildren();
    const { steps, state, ended } = current;
    const badge = byId("run-state");
    badge.textContent = { queued: texts.rowQueued, running: texts.rowRunning, waiting: texts.rowWaiting }[state] ?? texts[`step${capitalize(state)}`];
    badge.className = `badge ${{ done: "good", failed: "bad", waiting: "warn", running: "busy" }[state] ?? ""}`;
    while (list.children.length > steps.length) list.lastChild.remove();
    steps.forEach((step, index) => {
      if (!list.children[index]) list.append(cloneTemplate("timeline-step"));
      drawStep(list.children[index], step, steps[index - 1]);
    });
    list.classList.toggle("going", !ended);
    byId("run-link").hidden = !current.pageId;
    if (current.pageId) byId("run-link").querySelector("a").href = `/runs/${current.pageId}/`;
    if (!ended) ticking = setInterval(tick, TICK_MS);
  }

  function drawStep(item, { name, at: moment, until, tool, detail, bad }, previous) {
    item.dataset.step = name;
    item.classList.toggle("bad", Boolean(bad));
    const label = tool ?? texts[`step${capitalize(name)}`];
    setText(item.querySelector(".label"), label);
    setText(item.querySelector(".detail"), detail ? describeReason(detail, texts) : until ? formatDuration(until - moment, texts) : "");
    const time = item.querySelector("time");
    const first = current.steps[0].at;
    const since = moment - first;
    setText(time, previous ? `${since < 50 ? "" : "+"}${formatDuration(since, texts)}` : new Date(moment).toLocaleTimeString(document.documentElement.lang || undefined));
    time.title = formatFullTime(moment);
  }

  /** Count the seconds of a running tool. */
  function tick() {
    const step = current?.steps.at(-1);
    if (step?.name === "tool" && !step.until) setText(list.lastElementChild.querySelector(".detail"), formatDuration(Date.now() - step.at, texts));
  }
}

function capitalize(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
