/**
 * Messages above the composer: those queued behind the current run, and unsent ones too old to send without confirmation.
 *
 * A queued message is displayed here and moves to the transcript when its run starts.
 */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeError, fill } from "../../shared/texts.js";

export function startQueue(app) {
  const { gateway, texts } = app;
  const { transcript } = app.sessionView;
  const list = document.getElementById("queue");
  const recalled = new Set(); // runs recalled here, until they have ended
  let rows = new Map(); // run id → element
  let stale = []; // [run id, {message, attachments}]

  app.on("runs", draw);
  app.on("connection", draw);
  app.on("stale", (now) => {
    stale = now;
    draw();
  });

  function draw() {
    for (const runId of recalled) if (!transcript.unfinished.has(runId)) recalled.delete(runId);
    const waiting = waitingRuns();
    for (const run of transcript.runs.values()) run.box.classList.toggle("in-queue", waiting.includes(run));
    const before = rows;
    rows = new Map();
    for (const [runId, message] of stale) rows.set(runId, before.get(runId) ?? createStaleRow(runId, message));
    for (const row of rows.values()) row.querySelector(".send").disabled = !app.writable;
    for (const run of waiting) rows.set(run.runId, update(before.get(run.runId) ?? createQueuedRow(run), run));
    if ([...rows.values()].some((row, at) => list.children[at] !== row) || list.children.length !== rows.size) list.replaceChildren(...rows.values());
    list.hidden = !rows.size;
  }

  /** All queued runs except the current or next one. */
  function waitingRuns() {
    const open = [...transcript.unfinished].map((runId) => transcript.runs.get(runId)).filter(Boolean);
    const first = open.find((run) => !isQueued(run)) ?? open[0];
    return open.filter((run) => run !== first && isQueued(run) && run.userMessage);
  }

  function createQueuedRow(run) {
    const row = cloneTemplate("queued-message");
    const { author, text, attachments } = run.userMessage;
    show(row, { message: author ? fill(texts.saidBy, author, text) : text, attachments });
    row.querySelector(".remove").addEventListener("click", () => recall(run));
    row.querySelector(".edit").addEventListener("click", () => edit(run));
    return row;
  }

  function update(row, run) {
    const busy = recalled.has(run.runId) || (!run.acknowledged && gateway.ready);
    setText(row.querySelector(".state"), run.acknowledged ? texts.queued : gateway.ready ? texts.sending : texts.notSentYet);
    for (const button of row.querySelectorAll("button")) button.disabled = busy;
    row.querySelector(".edit").hidden = run.userMessage.truncated;
    row.querySelector(".acts").hidden = Boolean(run.userMessage.author); // only its author can recall it
    return row;
  }

  function createStaleRow(runId, message) {
    const row = cloneTemplate("kept-message");
    show(row, message);
    setText(row.querySelector(".state"), texts.keptTooLong);
    row.querySelector(".send").addEventListener("click", () => app.sendStale(runId));
    row.querySelector(".discard").addEventListener("click", () => app.discard(runId));
    return row;
  }

  function show(row, { message, attachments = [] }) {
    const files = attachments.length ? (attachments.length === 1 ? texts.fileWithIt : fill(texts.filesWithIt, attachments.length)) : "";
    row.querySelector(".text").textContent = [message, files && `(${files})`].filter(Boolean).join(" ");
    row.querySelector(".text").title = message;
  }

  async function edit(run) {
    const { text, attachments } = run.userMessage;
    if (await recall(run)) app.compose(text, { attachments });
  }

  /** Returns whether the message was recalled. */
  async function recall(run) {
    const { runId } = run;
    if (!run.acknowledged) return app.discard(runId);
    recalled.add(runId);
    draw();
    try {
      const { aborted } = await gateway.request("chat.abort", { sessionKey: app.feed.sessionKey, runId, withdraw: true });
      if (!aborted) recalled.delete(runId); // its run has started
      draw();
      return aborted;
    } catch (error) {
      recalled.delete(runId);
      draw();
      app.showProblem(fill(texts.notDone, describeError(error, texts)));
      return false;
    }
  }

  return {
    /** Recall the last queued message for editing; false if there is none. */
    editLast() {
      const run = waitingRuns().findLast(({ userMessage }) => !userMessage.author);
      if (!run || run.userMessage.truncated) return false;
      edit(run);
      return true;
    },
  };
}

function isQueued({ ending }) {
  return ending.dataset.state === "queued";
}
