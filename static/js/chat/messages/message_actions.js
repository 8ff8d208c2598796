/** What one can do with a message: copy it, ask again, change the question, go on from it in a conversation of its own. */

import { editMessage } from "./message_editor.js";
import { copyText } from "../markdown/decorations.js";
import { fill, reason } from "../../shared/texts.js";

export function startMessageActions(app, root) {
  const { words, gateway } = app;
  const acts = { copy, retry, edit, fork };

  root.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-act]");
    if (!button) return;
    const run = app.conversation.transcript.runs.get(button.closest(".run")?.dataset.runId);
    try {
      await acts[button.dataset.act](button.closest(".message"), run.asked ? run : before(run));
    } catch (error) {
      app.problem(fill(words.notDone, reason(words, error)));
    }
  });

  app.on("runs", ({ unfinished }) => root.classList.toggle("busy", unfinished > 0));

  /** As it was written, markdown and all. */
  function copy(element, run) {
    return copyText(app, messageOf(element, run).text);
  }

  /** What came after it goes too, which the editor says before it happens. */
  function retry(element, run) {
    if (run.asked.messageId && run.box.nextElementSibling) return edit(element, run);
    if (isBusy()) return;
    const { text, attachments } = run.asked;
    resend(run, text, attachments);
  }

  function edit(element, run) {
    if (isBusy()) return;
    const { text, attachments } = run.asked;
    editMessage(run.asked.element, text, (changed) => resend(run, changed, attachments));
  }

  async function fork(element) {
    const messageId = element.dataset.messageId;
    if (!messageId) throw new Error(words.noSuchMessage);
    const made = await gateway.request("sessions.fork", { key: app.feed.sessionKey, messageId });
    app.open(made.key);
    app.notice(words.forked);
  }

  function resend(run, message, attachments) {
    const replaces = run.asked.messageId;
    if (replaces) app.conversation.transcript.dropFrom(run.runId);
    else forget(run); // it was stopped before its run began, so nothing came of it
    app.conversation.rewinding = Boolean(replaces);
    app.send({ message, attachments, replaces });
    app.focusField();
  }

  function forget({ runId }) {
    app.conversation.transcript.withdrawn(runId);
    const gone = gateway.request("chat.abort", { sessionKey: app.feed.sessionKey, runId, withdraw: true });
    gone.catch((error) => app.problem(fill(words.notDone, reason(words, error))));
  }

  /** What is running has to end first: its answer belongs to the question as it was. */
  function isBusy() {
    if (app.conversation.transcript.unfinished.size) app.notice(words.stopFirst);
    return app.conversation.transcript.unfinished.size > 0;
  }

  function messageOf(element, run) {
    return app.conversation.transcript.messages.get(element.dataset.messageId) ?? run.asked;
  }

  /** The run with the question, when the messages belong to none: it is the last one before with a question. */
  function before(run) {
    const runs = [...app.conversation.transcript.runs.values()].filter(({ asked }) => asked);
    return runs.findLast(({ box }) => box.compareDocumentPosition(run.box) & Node.DOCUMENT_POSITION_FOLLOWING) ?? run;
  }
}
