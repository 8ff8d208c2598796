/** Events of runs, as they happen, into the transcript. Each arrives once and in order (shared/feed.js sees to it). */

import { failure, reasonWords } from "../../shared/run_reasons.js";
import { addNotice, addStored } from "./stored_messages.js";
import { isForWantOfARule, verdictOf } from "./tool_card.js";
import { fill } from "../../shared/texts.js";

export function applyEvent(transcript, payload) {
  const { runId, stream, data, change, message } = payload;
  if (runId) transcript.run(runId).told = true;
  if (stream in STREAMS) STREAMS[stream](transcript, payload);
  else if (stream === "fallback") addNotice(transcript, { ...data, runId, notice: stream });
  else if (change && message) addStored(transcript, message);
}

/** The answer that is being written just now, as the history tells it. */
export function showUnderWay(transcript, { runId, messageId, text, thinking, status, waitingFor, operation }) {
  const { words } = transcript;
  transcript.begin(runId, words.working).told = true;
  if (status === "waiting") lifecycle(transcript, { runId, data: { phase: "waiting", reason: waitingFor ?? words.somebody } });
  else transcript.goes(runId, "working", operation ? words.summarising : words.working);
  if (!messageId || !(text || thinking)) return;
  const message = transcript.message(runId, messageId);
  message.attempt = null; // whichever goes on
  message.thinking.write(0, thinking);
  if (text) message.write(0, text);
}

const STREAMS = { lifecycle, assistant, thinking, tool, compaction };

function lifecycle(transcript, { runId, data, ts }) {
  const { words } = transcript;
  transcript.waiting.delete(runId);
  switch (data.phase) {
    case "accepted":
      if (data.operation) return transcript.operates(runId);
      return transcript.accepted(runId, {
        content: data.content ?? data.prompt,
        messageId: data.messageId,
        timestamp: data.acceptedAt ?? ts,
        sender: data.sender,
      });
    case "start":
    case "resume":
      if (data.messageId) transcript.run(runId).asked?.know({ messageId: data.messageId });
      return transcript.goes(runId, "working", words.working);
    case "waiting":
      transcript.waiting.add(runId);
      return transcript.goes(runId, "waiting", fill(words.waitingFor, reasonWords(data.reason, words)));
    case "rescued":
      return transcript.goes(runId, "working", words.resumed);
    case "retry":
      return transcript.goes(runId, "working", words.retrying);
    case "end":
      if (data.stopReason === "withdrawn") return transcript.withdrawn(runId);
      transcript.run(runId).last?.know({ durationMs: data.endedAt && data.startedAt ? data.endedAt - data.startedAt : null });
      return transcript.finish(runId, ts, (run) => (data.aborted ? run.stopped() : run.ended()));
    case "error":
      return transcript.finish(runId, ts, (run) => run.ended(fill(words.failed, failure(data.error, data.kind, words)), { bad: true, kind: data.kind }));
  }
}

function assistant(transcript, { runId, data, ts }) {
  if (data.reset) return transcript.void(data.messageId);
  const message = transcript.message(runId, data.messageId);
  if (data.final) {
    message.thinking.end(ts);
    message.settle({ timestamp: ts, ...data.message });
    if (message.text) transcript.onAnswer(message.text);
  }
  if (message.final) return;
  message.begin(data.attempt);
  message.write(data.offset, data.delta, ts);
}

/** The earlier conversation is summarised: by the way in a run that goes on, or in one that does nothing else. */
function compaction(transcript, { runId, data, ts }) {
  const { words } = transcript;
  if (data.phase === "start") return transcript.goes(runId, "working", words.summarising);
  transcript.goes(runId, "working", words.working);
  if (data.completed) addNotice(transcript, { ...data, runId, notice: "compaction", timestamp: ts });
  else if (data.reason === "nothing_to_compact") addNotice(transcript, { runId, notice: "nothing", text: words.nothingToSummarise, timestamp: ts });
}

function thinking(transcript, { runId, data, ts }) {
  const message = transcript.message(runId, data.messageId);
  if (message.final) return;
  message.begin(data.attempt);
  message.thinking.write(data.offset, data.delta, ts);
}

function tool(transcript, { runId, data, ts }) {
  const card = transcript.card(runId, data.toolCallId, data.name, data.args);
  if (data.phase === "start") {
    transcript.run(runId).messages.forEach((message) => message.thinking.end(ts));
    card.start(ts);
  }
  if (data.phase === "waiting") {
    card.asks({ status: "pending", ...data.approval });
    transcript.onAsked(data.name);
  }
  if (data.phase === "decided") card.asks({ decidedAt: ts, ...data.approval });
  if (data.phase === "update") card.update(data.partialResult);
  if (data.phase !== "result") return;
  const { content, details } = data.result ?? {};
  card.finish({ content, isError: data.isError, verdict: verdictOf({ meta: data.meta, details }), letAsk: isForWantOfARule(details), details, ts });
}
