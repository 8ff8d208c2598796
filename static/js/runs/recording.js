/** A run's events, folded up to any of them: what there was to see at that moment. Draws nothing and asks nothing. */

export class Recording {
  constructor() {
    this.events = []; // in order, each once
    this.ended = false;
  }

  get last() {
    return this.events.at(-1)?.seq ?? 0;
  }

  /** @returns {boolean} whether there was something new */
  add(events) {
    const fresh = events.filter(({ seq }) => seq > this.last);
    this.events.push(...fresh);
    return fresh.length > 0;
  }

  /** Where the next tool call begins after a place; -1 when there is none. */
  nextTool(place) {
    return this.events.findIndex(({ stream, data }, at) => at > place && stream === "tool" && data.phase === "start");
  }

  firstError() {
    return this.events.findIndex(isError);
  }

  /** The run as it was right after the event at `place`. */
  viewAt(place) {
    const view = { state: "accepted", prompt: "", promptCharacters: 0, model: "", blocks: [], usage: { input: 0, output: 0, costUsd: 0 } };
    const byId = new Map();
    const block = (id, make) => {
      if (!byId.has(id)) {
        byId.set(id, { id, ...make() });
        view.blocks.push(byId.get(id));
      }
      return byId.get(id);
    };
    for (const event of this.events.slice(0, place + 1)) fold[event.stream]?.(view, event, block);
    return view;
  }
}

export function isError({ stream, data }) {
  return (stream === "lifecycle" && (data.phase === "error" || data.phase === "retry")) || (stream === "tool" && Boolean(data.isError));
}

const RUNS = new Set(["start", "resume", "rescued"]);

const fold = {
  lifecycle(view, { seq, ts, data }, block) {
    const { phase } = data;
    if (phase === "accepted") Object.assign(view, { prompt: data.prompt ?? "", promptCharacters: data.characters ?? 0 });
    else if (RUNS.has(phase)) view.state = "running";
    else if (phase === "waiting") view.state = "waiting";
    else if (phase === "error") view.state = "error";
    else if (phase === "end") view.state = data.aborted ? "aborted" : "completed";
    const told = phase === "end" && data.aborted ? "aborted" : phase;
    const kind = data.kind ?? data.reason ?? data.stopReason ?? "";
    if (phase !== "accepted") block(`n${seq}`, () => ({ type: "note", note: told, detail: data.error ?? "", kind, ts, bad: phase === "error" || phase === "retry" }));
  },

  assistant(view, event, block) {
    const { data } = event;
    const said = messageOf(event, block);
    if (!data.final) return void append(said, "text", data);
    const { message } = data;
    said.done = true;
    if (message.content) {
      said.text = joined(message.content, "text");
      said.thinking = joined(message.content, "thinking") || said.thinking;
    }
    said.model = [message.provider, message.model].filter(Boolean).join("/");
    said.usage = message.usage ?? null;
    view.model = said.model || view.model;
    view.usage.input += message.usage?.input ?? 0;
    view.usage.output += message.usage?.output ?? 0;
    view.usage.costUsd += (message.usage?.costMicroUsd ?? 0) / 1e6;
  },

  thinking(view, event, block) {
    append(messageOf(event, block), "thinking", event.data);
  },

  compaction(view, { seq, ts, data }, block) {
    const { phase, completed, tokensBefore, tokensAfter } = data;
    const note = phase === "start" ? "compacting" : completed ? "compacted" : "notCompacted";
    const detail = note === "compacted" ? `${tokensBefore} → ${tokensAfter}` : "";
    block(`n${seq}`, () => ({ type: "note", note, detail, kind: completed === false ? data.reason : "", ts, bad: completed === false && data.reason !== "nothing_to_compact" }));
  },

  toolcall(view, event, block) {
    messageOf(event, block).calling = event.data.name ?? "";
  },

  tool(view, { seq, ts, data }, block) {
    const call = block(`t${data.toolCallId}`, () => ({ type: "tool", callId: data.toolCallId, name: data.name, status: "running", began: ts, output: "" }));
    if (data.phase === "start") Object.assign(call, { args: data.args, status: "running", began: ts });
    else if (data.phase === "waiting") Object.assign(call, { args: data.args, status: "waiting" });
    else if (data.phase === "decided") {
      const { status = "decided", by = "" } = data.approval ?? {};
      Object.assign(call, { status: "decided", question: data.approval });
      block(`n${seq}`, () => ({ type: "note", note: status, detail: "", kind: by ?? "", ts, bad: status === "denied" || status === "expired" }));
    }
    else if (data.phase === "update") call.output = data.partialResult ?? "";
    else if (data.phase === "result") {
      const refused = data.meta?.verdict === "refused";
      Object.assign(call, { status: refused ? "refused" : data.isError ? "failed" : "finished", ended: ts, verdict: data.meta ?? null });
      call.output = (data.result?.content ?? []).map((part) => part.text ?? `[${part.type}]`).join("\n");
    }
  },
};

/** The message an event belongs to; another attempt begins it anew. */
function messageOf({ data }, block) {
  const said = block(`m${data.messageId}`, () => ({ type: "message", attempt: data.attempt ?? 1, text: "", thinking: "", characters: 0 }));
  if (data.reset || (data.attempt && data.attempt !== said.attempt)) {
    Object.assign(said, { attempt: data.attempt ?? said.attempt, text: "", thinking: "", characters: 0, calling: "" });
  }
  return said;
}

function append(said, kind, { delta, characters }) {
  said[kind] += delta ?? "";
  said.characters += characters ?? 0;
}

function joined(content, kind) {
  return content.filter(({ type }) => type === kind).map((part) => part[kind]).join("\n");
}
