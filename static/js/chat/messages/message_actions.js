/** Actions on a message: copy, retry, edit, fork. */

import { describeError, fill } from "../../shared/texts.js";
import { copyText } from "../markdown/decorations.js";
import { editMessage } from "./message_editor.js";

export function startMessageActions(app, root) {
  const { texts, gateway } = app;
  const actions = { copy, retry, edit, fork };

  root.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-act]");
    if (!button) return;
    const run = app.sessionView.transcript.runs.get(button.closest(".run")?.dataset.runId);
    try {
      await actions[button.dataset.act](button.closest(".message"), run.userMessage ? run : findPromptRun(run));
    } catch (error) {
      app.showProblem(fill(texts.notDone, describeError(error, texts)));
    }
  });

  app.on("runs", ({ unfinished }) => root.classList.toggle("busy", unfinished > 0));

  /** Copy the markdown source. */
  function copy(element, run) {
    return copyText(app, findMessage(element, run).text);
  }

  /** Retry a message. If later messages would be removed too, open the editor, which warns about it. */
  function retry(element, run) {
    if (run.userMessage.messageId && run.box.nextElementSibling) return edit(element, run);
    if (isBusy()) return;
    const { text, attachments } = run.userMessage;
    resend(run, text, attachments);
  }

  function edit(element, run) {
    if (isBusy()) return;
    const { text, attachments } = run.userMessage;
    editMessage(run.userMessage.element, text, (newText) => resend(run, newText, attachments));
  }

  async function fork(element) {
    const messageId = element.dataset.messageId;
    if (!messageId) throw new Error(texts.noSuchMessage);
    const session = await gateway.request("sessions.fork", { key: app.feed.sessionKey, messageId });
    app.open(session.key);
    app.showToast(texts.forked);
  }

  function resend(run, message, attachments) {
    const replaces = run.userMessage.messageId;
    if (replaces) app.sessionView.transcript.removeFrom(run.runId);
    else discard(run); // the message was stopped before its run started, so there is nothing to replace
    app.sessionView.rewinding = Boolean(replaces);
    app.send({ message, attachments, replaces });
    app.focusField();
  }

  function discard({ runId }) {
    app.sessionView.transcript.removeRun(runId);
    const request = gateway.request("chat.abort", { sessionKey: app.feed.sessionKey, runId, withdraw: true });
    request.catch((error) => app.showProblem(fill(texts.notDone, describeError(error, texts))));
  }

  /** Whether a run is unfinished. Messages can't be edited before it ends, because its answer belongs to the current text. */
  function isBusy() {
    if (app.sessionView.transcript.unfinished.size) app.showToast(texts.stopFirst);
    return app.sessionView.transcript.unfinished.size > 0;
  }

  function findMessage(element, run) {
    return app.sessionView.transcript.messages.get(element.dataset.messageId) ?? run.userMessage;
  }

  /** For a run without a user message, return the last run before it that has one. */
  function findPromptRun(run) {
    const runs = [...app.sessionView.transcript.runs.values()].filter(({ userMessage }) => userMessage);
    return runs.findLast(({ box }) => box.compareDocumentPosition(run.box) & Node.DOCUMENT_POSITION_FOLLOWING) ?? run;
  }
}
