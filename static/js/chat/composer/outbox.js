/**
 * Sending and stopping. A message is shown at once, kept until the server has accepted it, and sent again after a break.
 *
 * The run's id is the idempotency key, so sending again never makes a second run. Commands are of use now or never: they are
 * neither shown nor kept. What was kept for more than a day is sent only when its author says so (event "kept", queue.js).
 */

import { randomId } from "../../shared/gateway.js";
import { Unsent } from "./unsent_messages.js";
import { fill, reason } from "../../shared/texts.js";

export function startOutbox(app) {
  const { gateway, words } = app;
  const unsent = new Unsent(app.account);
  const { transcript } = app.conversation;
  let stopping = false;
  let runs = { unfinished: 0, waiting: false };

  app.send = ({ message, attachments = [], replaces = null }) => {
    if (!app.mayWrite() || (!message.trim() && !attachments.length)) return;
    app.problem("");
    if (message.trim().toLowerCase() === "/stop") return void stop();
    const params = { sessionKey: app.feed.sessionKey, message };
    if (attachments.length) params.attachments = attachments;
    if (replaces) params.replaces = replaces;
    if (app.isCommand(message)) command(params);
    else begin(randomId(), params);
  };

  app.stop = () => runs.unfinished && app.mayWrite() && stop();

  /** Under its old key: if it did arrive at the time, it does not become a second run. */
  app.sendKept = (runId) => {
    const params = unsent.get(runId);
    if (!app.writable || !params) return;
    begin(runId, params);
    showUnsent();
  };

  /** Forget a message that was not sent. */
  app.discard = (runId) => {
    unsent.remove(runId);
    app.conversation.unasked(runId);
    showUnsent();
    return true;
  };

  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    showUnsent(); // some may have become old while there was no connection
    if (app.writable) for (const [runId, params] of unsent.list()) if (!unsent.isOld(runId)) deliver(runId, params);
  });
  app.on("event", ({ payload }) => {
    if (!unsent.has(payload.runId)) return;
    unsent.remove(payload.runId); // it has become a run, also if the answer that says so was lost, or another window sent it
    showUnsent();
  });
  app.on("session", showUnsent);
  app.on("history", showUnsent);
  transcript.onRuns = (now) => {
    runs = now;
    tell({ stopping: stopping && now.unfinished > 0 });
  };

  function tell(now) {
    stopping = now.stopping;
    app.emit("runs", { ...runs, stopping });
  }

  /** The end of the runs, not the answer to this, says that they have stopped. */
  async function stop() {
    if (stopping) return;
    tell({ stopping: true });
    try {
      const { aborted } = await gateway.request("chat.abort", { sessionKey: app.feed.sessionKey });
      tell({ stopping: stopping && aborted && runs.unfinished > 0 });
      if (!aborted) app.notice(words.nothingToStop);
    } catch (error) {
      tell({ stopping: false });
      app.problem(fill(words.notStopped, reason(words, error)));
    }
  }

  async function command({ sessionKey, message, attachments }) {
    try {
      const answer = await gateway.request("chat.send", { sessionKey, message, idempotencyKey: randomId() });
      done(answer, sessionKey);
    } catch (error) {
      giveBack({ sessionKey, message, attachments }, error);
    }
  }

  function begin(runId, params) {
    unsent.add(runId, params);
    app.conversation.asked(runId, params, note());
    tell({ stopping }); // what it says is known only now
    if (gateway.ready) deliver(runId, params);
  }

  function showUnsent() {
    const old = [];
    for (const [runId, params] of unsent.list(app.feed.sessionKey)) {
      if (transcript.knows(runId)) unsent.remove(runId);
      else if (!unsent.isOld(runId)) app.conversation.asked(runId, params, note());
      else {
        app.conversation.unasked(runId);
        old.push([runId, params]);
      }
    }
    tell({ stopping });
    app.emit("kept", old);
  }

  function note() {
    return gateway.ready ? words.sending : words.notSentYet;
  }

  async function deliver(runId, { sessionKey, message, attachments, replaces }) {
    transcript.mark(runId, words.sending);
    const params = { sessionKey, message, attachments: attachments?.map(({ id }) => ({ id })), replaces };
    try {
      const answer = await gateway.request("chat.send", { ...params, idempotencyKey: runId });
      unsent.remove(runId);
      transcript.mark(runId, words.queued);
      // A command is done and no run; a run that had ended before stands in the history.
      if (!answer.runId || answer.status === "ok") app.conversation.unasked(runId);
      done(answer, sessionKey);
    } catch (error) {
      if (error.code === "DISCONNECTED") return transcript.mark(runId, words.notSentYet); // the next connection sends it again
      if (error.code === "TIMEOUT") return gateway.ready && unsent.has(runId) && deliver(runId, { sessionKey, message, attachments, replaces });
      unsent.remove(runId);
      if (sessionKey === app.feed.sessionKey && !app.conversation.unasked(runId)) return;
      if (replaces) app.conversation.reload(); // what it would have replaced is still there
      giveBack({ sessionKey, message, attachments }, error);
    }
  }

  /** What a command did, if it was one. */
  function done({ command: name, notice, sessionKey }, from) {
    if (name || notice) app.emit("command", { command: name, notice });
    if (name && sessionKey && sessionKey !== from) app.open(sessionKey);
  }

  /** Beside what was written since, in the composer of its own conversation. */
  function giveBack({ sessionKey, message, attachments }, error) {
    app.compose(message, { attachments, to: sessionKey });
    app.problem(fill(words.notSent, reason(words, error)));
  }
}
