/** Adds stored messages to the transcript, from the history and from session events. */

import { cloneTemplate, getBlocks, setText } from "../../shared/elements.js";
import { formatCount } from "../../shared/formats.js";
import { describeFailure, describeFailureKind } from "../../shared/run_reasons.js";
import { fill } from "../../shared/texts.js";
import { StreamedText } from "../markdown/streamed_text.js";
import { UserMessage } from "./message.js";
import { getDecision } from "./tool_card.js";

// Complete answers without a model: injected text, and tools invoked by a user.
const REASONS_WITHOUT_MODEL = ["injected", "invoked"];
// Reasons of stopped runs; all others are failures.
const STOP_REASONS = ["rpc", "stop", "session-reset", "session-delete", "share-ended"];

export function addStored(transcript, message) {
  if (message.command) return addCommandEnd(transcript, message);
  const runId = message.runId ?? transcript.getLooseRunId(message);
  transcript.getRun(runId).acknowledged = true;
  ROLES[message.role]?.(transcript, { ...message, runId });
}

/** Add a line about the session itself, such as a reset or a compaction. */
export function addNotice(transcript, message) {
  const { texts } = transcript;
  const { runId, notice, text, content, summarised, errorKind, messageId, model, timestamp, prompt, sender } = message;
  // For a message stopped before its run started, only this notice is stored.
  if (prompt) addUserMessage(transcript, { runId, content: prompt, timestamp, sender });
  if (notice === "aborted" && runId) return transcript.getRun(runId).showStopped();
  if (notice === "failed" && runId) {
    return transcript.getRun(runId).showEnd(
      fill(texts.failed, describeFailure(text, errorKind, texts)),
      { bad: true, kind: errorKind ?? "" },
    );
  }
  if (messageId && transcript.find(messageId)) return;
  const element = cloneTemplate(notice === "compaction" && text ? "notice-more" : "notice");
  const compacted = summarised ? fill(texts.wasCompactedCount, formatCount(summarised)) : texts.wasCompacted;
  const textsByNotice = {
    reset: texts.wasReset,
    compaction: compacted,
    fallback: model ? fill(texts.fellBackTo, model) : texts.fellBack,
  };
  if (!(textsByNotice[notice] ?? text)) return;
  setText(element.querySelector(".text"), textsByNotice[notice] ?? text);
  if (element.matches("details")) showSummary(transcript, element.querySelector(".more"), text, content);
  if (timestamp) element.title = new Date(timestamp).toLocaleString(document.documentElement.lang || undefined);
  if (messageId) element.dataset.messageId = messageId;
  transcript.addToRun(runId, element);
}

/** Render the summary that the agent continues from, in the same way as its answers. */
function showSummary(transcript, root, text, content) {
  const html = getBlocks(content).map((block) => block.html);
  new StreamedText(root, transcript.page).settle(
    text,
    html.length && html.every((blockHtml) => typeof blockHtml === "string") ? html.join("") : null,
  );
}

const ROLES = { user: addUserMessage, assistant: addAgentMessage, toolResult: addToolResult, notice: addNotice };

function addUserMessage(transcript, message) {
  const run = transcript.getRun(message.runId);
  if (run.userMessage) return run.userMessage.update(message);
  const userMessage = new UserMessage(transcript.page);
  userMessage.show(message);
  userMessage.update(message);
  run.userMessage = userMessage;
  transcript.addToRun(message.runId, userMessage.element);
}

function addAgentMessage(transcript, message) {
  const { runId, messageId, content } = message;
  transcript.getMessage(runId, messageId).settle(message);
  for (const block of getBlocks(content)) {
    if (block.type !== "toolCall") continue;
    const card = transcript.getCard(runId, block.id, block.name, block.arguments);
    if (message.approvals?.[block.id]) card.showApproval(message.approvals[block.id]);
  }
  if (isUnfinished(message)) showRunEnd(transcript, runId, message.stopReason);
}

function addToolResult(transcript, message) {
  const card = transcript.getCard(message.runId, message.toolCallId, message.toolName, null);
  if (message.messageId) card.element.dataset.messageId = message.messageId;
  card.finish({ ...message, decision: getDecision(message), isMissingRule: message.letAsk });
  const end = transcript.commandEnds.get(message.toolCallId);
  if (end) card.showCommandEnd(end);
}

/** Show the end of a background command on its tool card, now or when the card is loaded with an older page. */
function addCommandEnd(transcript, { toolCallId, command }) {
  transcript.commandEnds.set(toolCallId, command);
  transcript.tools.get(toolCallId)?.showCommandEnd(command);
}

/** A complete answer has a model and usage. `stopReason` is not enough: "stop" is also the reason of a stopped run. */
function isUnfinished({ stopReason, model, usage }) {
  return Boolean(stopReason) && !REASONS_WITHOUT_MODEL.includes(stopReason) && !model && !usage;
}

/** Show how the run ended, as far as that is stored. */
function showRunEnd(transcript, runId, reason) {
  const { texts } = transcript;
  if (STOP_REASONS.includes(reason)) transcript.getRun(runId).showStopped();
  else transcript.getRun(runId).showEnd(fill(texts.failed, describeFailureKind(reason, texts)), { bad: true, kind: reason });
}
