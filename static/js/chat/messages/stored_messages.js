/** Messages of the transcript, in their wire form, as the history and the session's own events tell them. */

import { Answer } from "../markdown/streamed_text.js";
import { blocksOf, copyOf, put } from "../../shared/elements.js";
import { count } from "../../shared/formats.js";
import { UserMessage } from "./message.js";
import { failure, failureWords } from "../../shared/run_reasons.js";
import { verdictOf } from "./tool_card.js";
import { fill } from "../../shared/texts.js";

const WITHOUT_MODEL = ["injected", "invoked"]; // whole answers that no model gave: words put in, and a person's own call of a tool
const STOPPED = ["rpc", "stop", "session-reset", "session-delete", "share-ended"]; // why a run was aborted; any other reason is a failure

export function addStored(transcript, message) {
  if (message.command) return commandEnded(transcript, message);
  const runId = message.runId ?? transcript.looseRun(message);
  transcript.run(runId).told = true;
  ROLES[message.role]?.(transcript, { ...message, runId });
}

/** A quiet line: what happened to the conversation, not what was said in it. */
export function addNotice(transcript, { runId, notice, text, content, summarised, errorKind, messageId, model, timestamp, prompt, sender }) {
  const { words } = transcript;
  // Of a message that was stopped before its run began only this notice is stored.
  if (prompt) user(transcript, { runId, content: prompt, timestamp, sender });
  if (notice === "aborted" && runId) return transcript.run(runId).stopped();
  if (notice === "failed" && runId) {
    return transcript.run(runId).ended(fill(words.failed, failure(text, errorKind, words)), { bad: true, kind: errorKind ?? "" });
  }
  if (messageId && transcript.find(messageId)) return;
  const line = copyOf(notice === "compaction" && text ? "notice-more" : "notice");
  const compacted = summarised ? fill(words.wasCompactedCount, count(summarised)) : words.wasCompacted;
  const told = { reset: words.wasReset, compaction: compacted, fallback: model ? fill(words.fellBackTo, model) : words.fellBack };
  if (!(told[notice] ?? text)) return;
  put(line.querySelector(".text"), told[notice] ?? text);
  if (line.matches("details")) summary(transcript, line.querySelector(".more"), text, content);
  if (timestamp) line.title = new Date(timestamp).toLocaleString(document.documentElement.lang || undefined);
  if (messageId) line.dataset.messageId = messageId;
  transcript.place(runId, line);
}

/** What the agent remembers of it: an agent's words, shown like its answers. */
function summary(transcript, root, text, content) {
  const html = blocksOf(content).map((block) => block.html);
  new Answer(root, transcript.page).settle(text, html.length && html.every((each) => typeof each === "string") ? html.join("") : null);
}

const ROLES = { user, assistant, toolResult, notice: addNotice };

function user(transcript, message) {
  const run = transcript.run(message.runId);
  if (run.asked) return run.asked.know(message);
  const shown = new UserMessage(transcript.page);
  shown.show(message);
  shown.know(message);
  run.asked = shown;
  transcript.place(message.runId, shown.element);
}

function assistant(transcript, message) {
  const { runId, messageId, content } = message;
  transcript.message(runId, messageId).settle(message);
  for (const block of blocksOf(content)) {
    if (block.type !== "toolCall") continue;
    const card = transcript.card(runId, block.id, block.name, block.arguments);
    if (message.approvals?.[block.id]) card.asks(message.approvals[block.id]);
  }
  if (isUnfinished(message)) endOf(transcript, runId, message.stopReason);
}

function toolResult(transcript, message) {
  const card = transcript.card(message.runId, message.toolCallId, message.toolName, null);
  if (message.messageId) card.element.dataset.messageId = message.messageId;
  card.finish({ ...message, verdict: verdictOf(message) });
  const end = transcript.ends.get(message.toolCallId);
  if (end) card.ended(end);
}

/** Said by the card of its call: now, or once that is shown, if it belongs to an older page. */
function commandEnded(transcript, { toolCallId, command }) {
  transcript.ends.set(toolCallId, command);
  transcript.tools.get(toolCallId)?.ended(command);
}

/** A model's whole answer names its model and usage. `stopReason` alone does not tell: "stop" is also the command's. */
function isUnfinished({ stopReason, model, usage }) {
  return Boolean(stopReason) && !WITHOUT_MODEL.includes(stopReason) && !model && !usage;
}

/** The words that the end of the run had when it was live, as far as they are stored. */
function endOf(transcript, runId, reason) {
  const { words } = transcript;
  if (STOPPED.includes(reason)) transcript.run(runId).stopped();
  else transcript.run(runId).ended(fill(words.failed, failureWords(reason, words)), { bad: true, kind: reason });
}
