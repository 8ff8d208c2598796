/** Shows the last run of the current session, updated live. Events from before the page was opened are loaded. */

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
  let currentRun = null;
  let loadedRunId = ""; // the run whose earlier events were loaded
  let methods = [];
  let tickTimer = null;
  let isRenderQueued = false;

  app.on("connection", ({ name, hello }) => {
    if (name !== "ready") return;
    methods = hello.features?.methods ?? [];
    loadedRunId = "";
    if (currentRun && !currentRun.ended) show(new RunSteps(currentRun.runId)); // load what was missed
    loadEarlier();
  });
  app.on("session", ({ same }) => same || show(null));
  app.on("history", ({ messages, activeRun, queued }) => {
    const runId = activeRun?.runId ?? queued?.at(-1)?.runId ?? messages.findLast((message) => message.runId)?.runId;
    if (!runId) return show(null);
    if (currentRun?.runId !== runId) show(new RunSteps(runId));
    loadEarlier();
  });
  app.on("event", ({ name, payload }) => {
    if (name !== "agent" || payload.sessionKey !== app.feed.sessionKey || !app.feed.loaded) return;
    const isStart = payload.stream === "lifecycle" && (payload.data.phase === "start" || payload.data.phase === "accepted");
    // A queued run is shown when it starts.
    if (isStart && payload.runId !== currentRun?.runId && (!currentRun || currentRun.ended || payload.data.phase === "start")) {
      show(new RunSteps(payload.runId));
    }
    if (payload.runId !== currentRun?.runId) return;
    if (!currentRun.isComplete && payload.seq > currentRun.seq + 1) loadEarlier(); // the run's first events were missed
    if (currentRun.add(payload)) renderSoon();
    if (currentRun.ended) loadPageId();
  });
  app.on("pane", ({ name, open }) => {
    if (name === "details" && open) loadEarlier();
    render();
  });

  function show(next) {
    currentRun = next;
    byId("run-link").hidden = true;
    renderSoon();
  }

  /** Load the events from before the page subscribed. */
  async function loadEarlier() {
    const run = currentRun;
    loadPageId();
    if (!run || run.isComplete || loadedRunId === run.runId || !app.details.isOpen() || !gateway.ready) return;
    loadedRunId = run.runId;
    const { sessionKey, cursor } = app.feed;
    for (const count of LOOK_BACK_EVENTS) {
      const fromVersion = Math.max(0, cursor - count);
      const response = await gateway.request("sessions.history", { sessionKey, fromStateVersion: fromVersion }).catch(() => ({}));
      if (currentRun !== run) return;
      run.rebuild((response.events ?? []).map(({ payload }) => payload).filter(({ runId }) => runId === run.runId));
      if (run.isComplete || fromVersion === 0) break;
    }
    renderSoon();
  }

  /** Link to the run's page if the server has run pages. */
  async function loadPageId() {
    const run = currentRun;
    if (!run || !methods.includes("runs.get") || !app.details.isOpen() || run.pageId !== undefined) return;
    run.pageId = null;
    const response = await gateway.request("runs.get", { runId: run.runId }).catch(() => ({}));
    run.pageId = response.run?.id ?? response.id ?? null;
    renderSoon();
  }

  function renderSoon() {
    if (isRenderQueued) return;
    isRenderQueued = true;
    queueMicrotask(() => {
      isRenderQueued = false;
      render();
    });
  }

  function render() {
    clearInterval(tickTimer);
    if (!app.details.isOpen()) return;
    byId("run-section").hidden = !currentRun?.steps.length;
    if (!currentRun?.steps.length) return list.replaceChildren();
    const { steps, state, ended } = currentRun;
    const badge = byId("run-state");
    badge.textContent = { queued: texts.rowQueued, running: texts.rowRunning, waiting: texts.rowWaiting }[state]
      ?? texts[`step${capitalize(state)}`];
    badge.className = `badge ${{ done: "good", failed: "bad", waiting: "warn", running: "busy" }[state] ?? ""}`;
    while (list.children.length > steps.length) list.lastChild.remove();
    steps.forEach((step, index) => {
      if (!list.children[index]) list.append(cloneTemplate("timeline-step"));
      renderStep(list.children[index], step, steps[index - 1]);
    });
    list.classList.toggle("going", !ended);
    byId("run-link").hidden = !currentRun.pageId;
    if (currentRun.pageId) byId("run-link").querySelector("a").href = `/runs/${currentRun.pageId}/`;
    if (!ended) tickTimer = setInterval(tick, TICK_MS);
  }

  function renderStep(item, { name, at: startedAt, until, tool, detail, bad }, previous) {
    item.dataset.step = name;
    item.classList.toggle("bad", Boolean(bad));
    const label = tool ?? texts[`step${capitalize(name)}`];
    setText(item.querySelector(".label"), label);
    setText(
      item.querySelector(".detail"),
      detail ? describeReason(detail, texts) : until ? formatDuration(until - startedAt, texts) : "",
    );
    const time = item.querySelector("time");
    const runStart = currentRun.steps[0].at;
    const offsetMs = startedAt - runStart;
    setText(
      time,
      previous
        ? `${offsetMs < 50 ? "" : "+"}${formatDuration(offsetMs, texts)}`
        : new Date(startedAt).toLocaleTimeString(document.documentElement.lang || undefined),
    );
    time.title = formatFullTime(startedAt);
  }

  /** Count the seconds of a running tool. */
  function tick() {
    const step = currentRun?.steps.at(-1);
    if (step?.name === "tool" && !step.until) {
      setText(list.lastElementChild.querySelector(".detail"), formatDuration(Date.now() - step.at, texts));
    }
  }
}

function capitalize(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
