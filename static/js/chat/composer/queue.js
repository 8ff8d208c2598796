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
  const recalledRuns = new Set(); // runs recalled in this window, until they have ended
  let rows = new Map(); // run id → element
  let staleMessages = []; // [run id, {message, attachments}]

  app.on("runs", render);
  app.on("connection", render);
  app.on("stale", (messages) => {
    staleMessages = messages;
    render();
  });

  function render() {
    for (const runId of recalledRuns) if (!transcript.unfinished.has(runId)) recalledRuns.delete(runId);
    const queuedRuns = findQueuedRuns();
    for (const run of transcript.runs.values()) run.box.classList.toggle("in-queue", queuedRuns.includes(run));
    const previousRows = rows;
    rows = new Map();
    for (const [runId, message] of staleMessages) rows.set(runId, previousRows.get(runId) ?? createStaleRow(runId, message));
    for (const row of rows.values()) row.querySelector(".send").disabled = !app.writable;
    for (const run of queuedRuns) rows.set(run.runId, updateQueuedRow(previousRows.get(run.runId) ?? createQueuedRow(run), run));
    if ([...rows.values()].some((row, index) => list.children[index] !== row) || list.children.length !== rows.size) {
      list.replaceChildren(...rows.values());
    }
    list.hidden = !rows.size;
  }

  /** Find the queued runs. If no run is active, the first one is about to start and is not included. */
  function findQueuedRuns() {
    const unfinishedRuns = [...transcript.unfinished].map((runId) => transcript.runs.get(runId)).filter(Boolean);
    const currentRun = unfinishedRuns.find((run) => !isQueued(run)) ?? unfinishedRuns[0];
    return unfinishedRuns.filter((run) => run !== currentRun && isQueued(run) && run.userMessage);
  }

  function createQueuedRow(run) {
    const row = cloneTemplate("queued-message");
    const { author, text, attachments } = run.userMessage;
    renderContent(row, { message: author ? fill(texts.saidBy, author, text) : text, attachments });
    row.querySelector(".remove").addEventListener("click", () => recall(run));
    row.querySelector(".edit").addEventListener("click", () => edit(run));
    return row;
  }

  function updateQueuedRow(row, run) {
    const busy = recalledRuns.has(run.runId) || (!run.acknowledged && gateway.ready);
    setText(row.querySelector(".state"), run.acknowledged ? texts.queued : gateway.ready ? texts.sending : texts.notSentYet);
    for (const button of row.querySelectorAll("button")) button.disabled = busy;
    row.querySelector(".edit").hidden = run.userMessage.truncated;
    row.querySelector(".acts").hidden = Boolean(run.userMessage.author); // only its author can recall it
    return row;
  }

  function createStaleRow(runId, message) {
    const row = cloneTemplate("kept-message");
    renderContent(row, message);
    setText(row.querySelector(".state"), texts.keptTooLong);
    row.querySelector(".send").addEventListener("click", () => app.sendStale(runId));
    row.querySelector(".discard").addEventListener("click", () => app.discard(runId));
    return row;
  }

  function renderContent(row, { message, attachments = [] }) {
    const files = attachments.length
      ? (attachments.length === 1 ? texts.fileWithIt : fill(texts.filesWithIt, attachments.length))
      : "";
    row.querySelector(".text").textContent = [message, files && `(${files})`].filter(Boolean).join(" ");
    row.querySelector(".text").title = message;
  }

  async function edit(run) {
    const { text, attachments } = run.userMessage;
    if (await recall(run)) app.compose(text, { attachments });
  }

  /** Recall a message. Returns whether that was still possible. */
  async function recall(run) {
    const { runId } = run;
    if (!run.acknowledged) return app.discard(runId);
    recalledRuns.add(runId);
    render();
    try {
      const { aborted } = await gateway.request("chat.abort", { sessionKey: app.feed.sessionKey, runId, withdraw: true });
      if (!aborted) recalledRuns.delete(runId); // the message's run has started
      render();
      return aborted;
    } catch (error) {
      recalledRuns.delete(runId);
      render();
      app.showProblem(fill(texts.notDone, describeError(error, texts)));
      return false;
    }
  }

  return {
    /** Recall the last queued message for editing; false if there is none. */
    editLast() {
      const run = findQueuedRuns().findLast(({ userMessage }) => !userMessage.author);
      if (!run || run.userMessage.truncated) return false;
      edit(run);
      return true;
    },
  };
}

function isQueued({ ending }) {
  return ending.dataset.state === "queued";
}
