/**
 * What waits, above the composer: messages behind the one being answered, and kept ones too old to be sent without asking.
 *
 * A message that waits stands here and not in the conversation, where it appears when its turn comes.
 */

import { copyOf, put } from "../../shared/elements.js";
import { fill, reason } from "../../shared/texts.js";

export function startQueue(app) {
  const { gateway, words } = app;
  const { transcript } = app.conversation;
  const list = document.getElementById("queue");
  const leaving = new Set(); // runs that were taken back here, until they have ended
  let rows = new Map(); // run id → element
  let kept = []; // [run id, {message, attachments}]

  app.on("runs", draw);
  app.on("connection", draw);
  app.on("kept", (now) => {
    kept = now;
    draw();
  });

  function draw() {
    for (const runId of leaving) if (!transcript.unfinished.has(runId)) leaving.delete(runId);
    const waiting = waitingRuns();
    for (const run of transcript.runs.values()) run.box.classList.toggle("in-queue", waiting.includes(run));
    const before = rows;
    rows = new Map();
    for (const [runId, message] of kept) rows.set(runId, before.get(runId) ?? keptRow(runId, message));
    for (const row of rows.values()) row.querySelector(".send").disabled = !app.writable;
    for (const run of waiting) rows.set(run.runId, update(before.get(run.runId) ?? queuedRow(run), run));
    if ([...rows.values()].some((row, at) => list.children[at] !== row) || list.children.length !== rows.size) list.replaceChildren(...rows.values());
    list.hidden = !rows.size;
  }

  /** All but the one that is being answered, or will be next. */
  function waitingRuns() {
    const open = [...transcript.unfinished].map((runId) => transcript.runs.get(runId)).filter(Boolean);
    const first = open.find((run) => !isQueued(run)) ?? open[0];
    return open.filter((run) => run !== first && isQueued(run) && run.asked);
  }

  function queuedRow(run) {
    const row = copyOf("queued-message");
    const { author, text, attachments } = run.asked;
    show(row, { message: author ? fill(words.saidBy, author, text) : text, attachments });
    row.querySelector(".remove").addEventListener("click", () => takeBack(run));
    row.querySelector(".edit").addEventListener("click", () => edit(run));
    return row;
  }

  function update(row, run) {
    const busy = leaving.has(run.runId) || (!run.told && gateway.ready);
    put(row.querySelector(".state"), run.told ? words.queued : gateway.ready ? words.sending : words.notSentYet);
    for (const button of row.querySelectorAll("button")) button.disabled = busy;
    row.querySelector(".edit").hidden = run.asked.truncated;
    row.querySelector(".acts").hidden = Boolean(run.asked.author); // its own author takes it back
    return row;
  }

  function keptRow(runId, message) {
    const row = copyOf("kept-message");
    show(row, message);
    put(row.querySelector(".state"), words.keptTooLong);
    row.querySelector(".send").addEventListener("click", () => app.sendKept(runId));
    row.querySelector(".discard").addEventListener("click", () => app.discard(runId));
    return row;
  }

  function show(row, { message, attachments = [] }) {
    const files = attachments.length ? (attachments.length === 1 ? words.fileWithIt : fill(words.filesWithIt, attachments.length)) : "";
    row.querySelector(".text").textContent = [message, files && `(${files})`].filter(Boolean).join(" ");
    row.querySelector(".text").title = message;
  }

  async function edit(run) {
    const { text, attachments } = run.asked;
    if (await takeBack(run)) app.compose(text, { attachments });
  }

  /** True when the message will not be answered. */
  async function takeBack(run) {
    const { runId } = run;
    if (!run.told) return app.discard(runId);
    leaving.add(runId);
    draw();
    try {
      const { aborted } = await gateway.request("chat.abort", { sessionKey: app.feed.sessionKey, runId, withdraw: true });
      if (!aborted) leaving.delete(runId); // its turn has come meanwhile
      draw();
      return aborted;
    } catch (error) {
      leaving.delete(runId);
      draw();
      app.problem(fill(words.notDone, reason(words, error)));
      return false;
    }
  }

  return {
    /** Take back the last message that waits, to change it; false when none does. */
    editLast() {
      const run = waitingRuns().findLast(({ asked }) => !asked.author);
      if (!run || run.asked.truncated) return false;
      edit(run);
      return true;
    },
  };
}

function isQueued({ ending }) {
  return ending.dataset.state === "queued";
}
