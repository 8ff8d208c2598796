/**
 * Sends messages and stops runs. A message is displayed immediately, stored until the server accepts it, and resent after a
 * disconnect.
 *
 * The run ID is the idempotency key, so resending never creates a second run. Commands are neither displayed nor stored, because
 * they only make sense immediately. Messages stored for more than a day are sent only if their author confirms (event "stale",
 * queue.js).
 */

import { randomId } from "../../shared/gateway.js";
import { describeError, fill } from "../../shared/texts.js";
import { UnsentMessages } from "./unsent_messages.js";

export function startOutbox(app) {
  const { gateway, texts } = app;
  const unsent = new UnsentMessages(app.account);
  const { transcript } = app.sessionView;
  let stopping = false;
  let runs = { unfinished: 0, waiting: false };

  app.send = ({ message, attachments = [], replaces = null }) => {
    if (!app.canWrite() || (!message.trim() && !attachments.length)) return;
    app.showProblem("");
    if (message.trim().toLowerCase() === "/stop") return void stop();
    const params = { sessionKey: app.feed.sessionKey, message };
    if (attachments.length) params.attachments = attachments;
    if (replaces) params.replaces = replaces;
    if (app.isCommand(message)) sendCommand(params);
    else storeAndSend(randomId(), params);
  };

  app.stop = () => runs.unfinished && app.canWrite() && stop();

  /** Send a stale message. Reuses the original key, so that a message that did arrive does not create a second run. */
  app.sendStale = (runId) => {
    const params = unsent.get(runId);
    if (!app.writable || !params) return;
    storeAndSend(runId, params);
    showUnsent();
  };

  /** Discard a message that was not sent. */
  app.discard = (runId) => {
    unsent.remove(runId);
    app.sessionView.removePending(runId);
    showUnsent();
    return true;
  };

  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    showUnsent(); // some messages may have become stale while disconnected
    if (app.writable) for (const [runId, params] of unsent.list()) if (!unsent.isStale(runId)) deliver(runId, params);
  });
  app.on("event", ({ payload }) => {
    if (!unsent.has(payload.runId)) return;
    unsent.remove(payload.runId); // the message became a run, even if the response was lost or another window sent it
    showUnsent();
  });
  app.on("session", showUnsent);
  app.on("history", showUnsent);
  transcript.onRuns = (counts) => {
    runs = counts;
    emitRuns({ stopping: stopping && counts.unfinished > 0 });
  };

  function emitRuns(state) {
    stopping = state.stopping;
    app.emit("runs", { ...runs, stopping });
  }

  /** Stop all runs. The end of the runs, not this response, confirms that they stopped. */
  async function stop() {
    if (stopping) return;
    emitRuns({ stopping: true });
    try {
      const { aborted } = await gateway.request("chat.abort", { sessionKey: app.feed.sessionKey });
      emitRuns({ stopping: stopping && aborted && runs.unfinished > 0 });
      if (!aborted) app.showToast(texts.nothingToStop);
    } catch (error) {
      emitRuns({ stopping: false });
      app.showProblem(fill(texts.notStopped, describeError(error, texts)));
    }
  }

  async function sendCommand({ sessionKey, message, attachments }) {
    try {
      const response = await gateway.request("chat.send", { sessionKey, message, idempotencyKey: randomId() });
      handleCommandResult(response, sessionKey);
    } catch (error) {
      returnToComposer({ sessionKey, message, attachments }, error);
    }
  }

  function storeAndSend(runId, params) {
    unsent.add(runId, params);
    app.sessionView.showPending(runId, params, sendingNote());
    emitRuns({ stopping }); // again, because the transcript emitted its event before the run had its message
    if (gateway.ready) deliver(runId, params);
  }

  function showUnsent() {
    const staleMessages = [];
    for (const [runId, params] of unsent.list(app.feed.sessionKey)) {
      if (transcript.isAcknowledged(runId)) unsent.remove(runId);
      else if (!unsent.isStale(runId)) app.sessionView.showPending(runId, params, sendingNote());
      else {
        app.sessionView.removePending(runId);
        staleMessages.push([runId, params]);
      }
    }
    emitRuns({ stopping });
    app.emit("stale", staleMessages);
  }

  function sendingNote() {
    return gateway.ready ? texts.sending : texts.notSentYet;
  }

  async function deliver(runId, { sessionKey, message, attachments, replaces }) {
    transcript.setSendingNote(runId, texts.sending);
    const params = { sessionKey, message, attachments: attachments?.map(({ id }) => ({ id })), replaces };
    try {
      const response = await gateway.request("chat.send", { ...params, idempotencyKey: runId });
      unsent.remove(runId);
      transcript.setSendingNote(runId, texts.queued);
      // Commands create no run; a run that has already ended is in the history.
      if (!response.runId || response.status === "ok") app.sessionView.removePending(runId);
      handleCommandResult(response, sessionKey);
    } catch (error) {
      if (error.code === "DISCONNECTED") return transcript.setSendingNote(runId, texts.notSentYet); // resent after reconnecting
      if (error.code === "TIMEOUT") {
        return gateway.ready && unsent.has(runId) && deliver(runId, { sessionKey, message, attachments, replaces });
      }
      unsent.remove(runId);
      if (sessionKey === app.feed.sessionKey && !app.sessionView.removePending(runId)) return;
      if (replaces) app.sessionView.reload(); // the message it would have replaced still exists
      returnToComposer({ sessionKey, message, attachments }, error);
    }
  }

  /** Report the result if the message was a command. */
  function handleCommandResult({ command: name, notice, sessionKey }, currentKey) {
    if (name || notice) app.emit("command", { command: name, notice });
    if (name && sessionKey && sessionKey !== currentKey) app.open(sessionKey);
  }

  /** Return a message to its session's composer, after anything typed since, and show the error. */
  function returnToComposer({ sessionKey, message, attachments }, error) {
    app.compose(message, { attachments, to: sessionKey });
    app.showProblem(fill(texts.notSent, describeError(error, texts)));
  }
}
