/** Applies live run events to the transcript. shared/feed.js delivers each event once and in order. */

import { describeFailure, describeReason } from "../../shared/run_reasons.js";
import { fill } from "../../shared/texts.js";
import { addNotice, addStored } from "./stored_messages.js";
import { getDecision, isMissingRule } from "./tool_card.js";

export function applyEvent(transcript, payload) {
  const { runId, stream, data, change, message } = payload;
  if (runId) transcript.getRun(runId).acknowledged = true;
  if (stream in STREAMS) STREAMS[stream](transcript, payload);
  else if (stream === "fallback") addNotice(transcript, { ...data, runId, notice: stream });
  else if (change && message) addStored(transcript, message);
}

/** Show the run in progress as reported by the history. */
export function showActiveRun(transcript, { runId, messageId, text, thinking, status, waitingFor, operation }) {
  const { texts } = transcript;
  transcript.startRun(runId, texts.working).acknowledged = true;
  if (status === "waiting") applyLifecycle(transcript, { runId, data: { phase: "waiting", reason: waitingFor ?? texts.somebody } });
  else transcript.setState(runId, "working", operation ? texts.summarising : texts.working);
  if (!messageId || !(text || thinking)) return;
  const message = transcript.getMessage(runId, messageId);
  message.attempt = null; // accept any attempt
  message.thinking.write(0, thinking);
  if (text) message.write(0, text);
}

const STREAMS = {
  lifecycle: applyLifecycle,
  assistant: applyAssistant,
  thinking: applyThinking,
  tool: applyTool,
  compaction: applyCompaction,
};

function applyLifecycle(transcript, { runId, data, ts }) {
  const { texts } = transcript;
  transcript.waiting.delete(runId);
  switch (data.phase) {
    case "accepted":
      if (data.operation) return transcript.addOperation(runId);
      return transcript.addAccepted(runId, {
        content: data.content ?? data.prompt,
        messageId: data.messageId,
        timestamp: data.acceptedAt ?? ts,
        sender: data.sender,
      });
    case "start":
    case "resume":
      if (data.messageId) transcript.getRun(runId).userMessage?.update({ messageId: data.messageId });
      return transcript.setState(runId, "working", texts.working);
    case "waiting":
      transcript.waiting.add(runId);
      return transcript.setState(runId, "waiting", fill(texts.waitingFor, describeReason(data.reason, texts)));
    case "rescued":
      return transcript.setState(runId, "working", texts.resumed);
    case "retry":
      return transcript.setState(runId, "working", texts.retrying);
    case "end":
      if (data.stopReason === "withdrawn") return transcript.removeRun(runId);
      transcript.getRun(runId).last?.update({ durationMs: data.endedAt && data.startedAt ? data.endedAt - data.startedAt : null });
      return transcript.finish(runId, ts, (run) => (data.aborted ? run.showStopped() : run.showEnd()));
    case "error":
      return transcript.finish(runId, ts, (run) => run.showEnd(
        fill(texts.failed, describeFailure(data.error, data.kind, texts)),
        { bad: true, kind: data.kind },
      ));
  }
}

function applyAssistant(transcript, { runId, data, ts }) {
  if (data.reset) return transcript.discardMessage(data.messageId);
  const message = transcript.getMessage(runId, data.messageId);
  if (data.final) {
    message.thinking.end(ts);
    message.settle({ timestamp: ts, ...data.message });
    if (message.text) transcript.onAnswer(message.text);
  }
  if (message.final) return;
  message.begin(data.attempt);
  message.write(data.offset, data.delta, ts);
}

/** The history is being summarized, during a run or in a run for that purpose. */
function applyCompaction(transcript, { runId, data, ts }) {
  const { texts } = transcript;
  if (data.phase === "start") return transcript.setState(runId, "working", texts.summarising);
  transcript.setState(runId, "working", texts.working);
  if (data.completed) addNotice(transcript, { ...data, runId, notice: "compaction", timestamp: ts });
  else if (data.reason === "nothing_to_compact") {
    addNotice(transcript, { runId, notice: "nothing", text: texts.nothingToSummarise, timestamp: ts });
  }
}

function applyThinking(transcript, { runId, data, ts }) {
  const message = transcript.getMessage(runId, data.messageId);
  if (message.final) return;
  message.begin(data.attempt);
  message.thinking.write(data.offset, data.delta, ts);
}

function applyTool(transcript, { runId, data, ts }) {
  const card = transcript.getCard(runId, data.toolCallId, data.name, data.args);
  if (data.phase === "start") {
    transcript.getRun(runId).messages.forEach((message) => message.thinking.end(ts));
    card.start(ts);
  }
  if (data.phase === "waiting") {
    card.showApproval({ status: "pending", ...data.approval });
    transcript.onApprovalRequested(data.name);
  }
  if (data.phase === "decided") card.showApproval({ decidedAt: ts, ...data.approval });
  if (data.phase === "update") card.update(data.partialResult);
  if (data.phase !== "result") return;
  const { content, details } = data.result ?? {};
  card.finish({
    content,
    isError: data.isError,
    decision: getDecision({ meta: data.meta, details }),
    isMissingRule: isMissingRule(details),
    details,
    ts,
  });
}
