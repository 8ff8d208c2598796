/** Replays the events of a run up to any of them, to compute what was visible at that time. No drawing, no requests. */

export class Recording {
  constructor() {
    this.events = []; // in order, without duplicates
    this.ended = false;
  }

  get last() {
    return this.events.at(-1)?.seq ?? 0;
  }

  /** @returns {boolean} whether there were new events */
  add(events) {
    const newEvents = events.filter(({ seq }) => seq > this.last);
    this.events.push(...newEvents);
    return newEvents.length > 0;
  }

  /** Index of the next start of a tool call; -1 if there is none. */
  nextTool(index) {
    return this.events.findIndex(({ stream, data }, position) => position > index && stream === "tool" && data.phase === "start");
  }

  firstError() {
    return this.events.findIndex(isError);
  }

  /** The run as it was right after the event at `index`. */
  viewAt(index) {
    const view = {
      state: "accepted",
      prompt: "",
      promptCharacters: 0,
      model: "",
      blocks: [],
      usage: { input: 0, output: 0, costUsd: 0 },
    };
    const byId = new Map();
    const block = (id, create) => {
      if (!byId.has(id)) {
        byId.set(id, { id, ...create() });
        view.blocks.push(byId.get(id));
      }
      return byId.get(id);
    };
    for (const event of this.events.slice(0, index + 1)) appliers[event.stream]?.(view, event, block);
    return view;
  }
}

export function isError({ stream, data }) {
  return (stream === "lifecycle" && (data.phase === "error" || data.phase === "retry"))
    || (stream === "tool" && Boolean(data.isError));
}

const RUNNING_PHASES = new Set(["start", "resume", "rescued"]);

const appliers = {
  lifecycle(view, { seq, ts, data }, block) {
    const { phase } = data;
    if (phase === "accepted") Object.assign(view, { prompt: data.prompt ?? "", promptCharacters: data.characters ?? 0 });
    else if (RUNNING_PHASES.has(phase)) view.state = "running";
    else if (phase === "waiting") view.state = "waiting";
    else if (phase === "error") view.state = "error";
    else if (phase === "end") view.state = data.aborted ? "aborted" : "completed";
    const note = phase === "end" && data.aborted ? "aborted" : phase;
    const kind = data.kind ?? data.reason ?? data.stopReason ?? "";
    const bad = phase === "error" || phase === "retry";
    if (phase !== "accepted") block(`n${seq}`, () => ({ type: "note", note, detail: data.error ?? "", kind, ts, bad }));
  },

  assistant(view, event, block) {
    const { data } = event;
    const message = getMessage(event, block);
    if (!data.final) return void append(message, "text", data);
    const { content, provider, model, usage } = data.message;
    message.done = true;
    if (content) {
      message.text = joinContent(content, "text");
      message.thinking = joinContent(content, "thinking") || message.thinking;
    }
    message.model = [provider, model].filter(Boolean).join("/");
    message.usage = usage ?? null;
    view.model = message.model || view.model;
    view.usage.input += usage?.input ?? 0;
    view.usage.output += usage?.output ?? 0;
    view.usage.costUsd += (usage?.costMicroUsd ?? 0) / 1e6;
  },

  thinking(view, event, block) {
    append(getMessage(event, block), "thinking", event.data);
  },

  compaction(view, { seq, ts, data }, block) {
    const { phase, completed, tokensBefore, tokensAfter } = data;
    const note = phase === "start" ? "compacting" : completed ? "compacted" : "notCompacted";
    const detail = note === "compacted" ? `${tokensBefore} → ${tokensAfter}` : "";
    const kind = completed === false ? data.reason : "";
    const bad = completed === false && data.reason !== "nothing_to_compact";
    block(`n${seq}`, () => ({ type: "note", note, detail, kind, ts, bad }));
  },

  toolcall(view, event, block) {
    getMessage(event, block).calling = event.data.name ?? "";
  },

  tool(view, { seq, ts, data }, block) {
    const call = block(`t${data.toolCallId}`, () => ({
      type: "tool",
      callId: data.toolCallId,
      name: data.name,
      status: "running",
      startedAt: ts,
      output: "",
    }));
    if (data.phase === "start") Object.assign(call, { args: data.args, status: "running", startedAt: ts });
    else if (data.phase === "waiting") Object.assign(call, { args: data.args, status: "waiting" });
    else if (data.phase === "decided") {
      const { status = "decided", by = "" } = data.approval ?? {};
      Object.assign(call, { status: "decided", approval: data.approval });
      const bad = status === "denied" || status === "expired";
      block(`n${seq}`, () => ({ type: "note", note: status, detail: "", kind: by ?? "", ts, bad }));
    }
    else if (data.phase === "update") call.output = data.partialResult ?? "";
    else if (data.phase === "result") {
      const denied = data.meta?.verdict === "refused";
      Object.assign(call, {
        status: denied ? "refused" : data.isError ? "failed" : "finished",
        endedAt: ts,
        verdict: data.meta ?? null,
      });
      call.output = (data.result?.content ?? []).map((part) => part.text ?? `[${part.type}]`).join("\n");
    }
  },
};

/** Get the message of an event; a new attempt clears it. */
function getMessage({ data }, block) {
  const message = block(`m${data.messageId}`, () => ({
    type: "message",
    attempt: data.attempt ?? 1,
    text: "",
    thinking: "",
    characters: 0,
  }));
  if (data.reset || (data.attempt && data.attempt !== message.attempt)) {
    Object.assign(message, { attempt: data.attempt ?? message.attempt, text: "", thinking: "", characters: 0, calling: "" });
  }
  return message;
}

function append(message, kind, { delta, characters }) {
  message[kind] += delta ?? "";
  message.characters += characters ?? 0;
}

function joinContent(content, kind) {
  return content.filter(({ type }) => type === kind).map((part) => part[kind]).join("\n");
}
