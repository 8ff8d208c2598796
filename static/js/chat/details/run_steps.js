/** A run as steps with times, from its events: accepted, started, first words, tools, end. Draws nothing and asks nothing. */

const DECIDED = { approved: "approved", denied: "denied", expired: "expired", void: "voided" };

export class Timeline {
  constructor(runId) {
    this.runId = runId;
    this.heard = []; // the events that made the steps
    this.#clear();
  }

  #clear() {
    this.steps = []; // {name, at, until?, detail?, tool?, bad?}
    this.seq = 0;
    this.state = "queued"; // queued, running, waiting, done, stopped, failed
    this.begun = new Set(); // messages of which something was seen
    this.tools = new Map();
  }

  get whole() {
    return this.steps[0]?.name === "accepted";
  }

  get ended() {
    return ["done", "stopped", "failed"].includes(this.state);
  }

  /** Begin again with these events, which are without gaps up to their last, and go on with what was heard after it. */
  rebuild(events) {
    const last = events.at(-1)?.seq ?? 0;
    const later = this.heard.filter(({ seq }) => seq > last);
    this.heard = [];
    this.#clear();
    for (const event of [...events, ...later]) this.add(event);
  }

  /** One event. Older ones than the last are known already. True when there is a new step. */
  add(event) {
    const { seq, stream, ts, data } = event;
    if (seq <= this.seq) return false;
    this.seq = seq;
    const before = this.steps.length;
    const state = this.state;
    let ended = false;
    if (stream === "lifecycle") this.#phase(data, ts);
    else if (stream === "thinking") this.#first(`thinking:${data.messageId}`, "thinking", ts);
    else if (stream === "assistant" && data.delta) this.#first(`words:${data.messageId}`, "words", ts);
    else if (stream === "tool") ended = this.#tool(data, ts);
    else if (stream === "compaction" && data.phase !== "end") this.#step("compaction", ts);
    const tells = ended || this.steps.length > before || this.state !== state;
    if (tells) this.heard.push(event);
    return tells;
  }

  #step(name, at, more = {}) {
    const step = { name, at, ...more };
    this.steps.push(step);
    return step;
  }

  /** Deltas come by the hundred; the first of each message is a step. */
  #first(id, name, ts) {
    if (this.begun.has(id)) return;
    this.begun.add(id);
    this.#step(name, ts);
  }

  #phase(data, ts) {
    const going = { accepted: "queued", start: "running", resume: "running", rescued: "running", waiting: "waiting" }[data.phase];
    if (going) this.state = going;
    const name = { accepted: "accepted", start: "started", resume: "resumed", rescued: "rescued", retry: "retry" }[data.phase];
    if (name) this.#step(name, ts, data.phase === "retry" ? { detail: data.kind } : {});
    else if (data.phase === "waiting") this.#step("waiting", ts, { detail: data.reason });
    else if (data.phase === "end" || data.phase === "error") {
      this.state = data.phase === "error" ? "failed" : data.aborted ? "stopped" : "done";
      this.#step(this.state, ts, this.state === "failed" ? { bad: true, detail: data.error } : {});
    }
  }

  #tool({ phase, name, toolCallId, isError, approval }, ts) {
    if (phase === "waiting") this.#step("asked", ts, { detail: name });
    if (phase === "decided") this.#step(DECIDED[approval?.status] ?? "decided", ts, { detail: approval?.by, bad: approval?.status === "denied" });
    if (phase === "start") this.tools.set(toolCallId, this.#step("tool", ts, { tool: name }));
    if (phase !== "result") return false;
    const step = this.tools.get(toolCallId) ?? this.#step("tool", ts, { tool: name }); // refused ones never start
    Object.assign(step, { until: ts, bad: Boolean(isError) });
    return true;
  }
}
