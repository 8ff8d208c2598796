/** Converts the events of a run to steps with times: accepted, started, first output, tools, end. No rendering, no requests. */

const STEP_BY_STATUS = { approved: "approved", denied: "denied", expired: "expired", void: "voided" };

export class RunSteps {
  constructor(runId) {
    this.runId = runId;
    this.appliedEvents = []; // events that added or changed steps
    this.#clear();
  }

  #clear() {
    this.steps = []; // {name, at, until?, detail?, tool?, bad?}
    this.seq = 0;
    this.state = "queued"; // queued, running, waiting, done, stopped, failed
    this.seenMessages = new Set(); // messages with output so far
    this.tools = new Map();
  }

  get isComplete() {
    return this.steps[0]?.name === "accepted";
  }

  get ended() {
    return ["done", "stopped", "failed"].includes(this.state);
  }

  /** Start over with these events, which are complete up to their last one, and reapply later ones. */
  rebuild(events) {
    const last = events.at(-1)?.seq ?? 0;
    const later = this.appliedEvents.filter(({ seq }) => seq > last);
    this.appliedEvents = [];
    this.#clear();
    for (const event of [...events, ...later]) this.add(event);
  }

  /** Apply an event, unless it is older than the last one. Returns whether a step was added or changed. */
  add(event) {
    const { seq, stream, ts, data } = event;
    if (seq <= this.seq) return false;
    this.seq = seq;
    const previousCount = this.steps.length;
    const previousState = this.state;
    let hasEnded = false;
    if (stream === "lifecycle") this.#applyPhase(data, ts);
    else if (stream === "thinking") this.#addFirst(`thinking:${data.messageId}`, "thinking", ts);
    else if (stream === "assistant" && data.delta) this.#addFirst(`words:${data.messageId}`, "words", ts);
    else if (stream === "tool") hasEnded = this.#applyTool(data, ts);
    else if (stream === "compaction" && data.phase !== "end") this.#addStep("compaction", ts);
    const hasChanged = hasEnded || this.steps.length > previousCount || this.state !== previousState;
    if (hasChanged) this.appliedEvents.push(event);
    return hasChanged;
  }

  #addStep(name, at, details = {}) {
    const step = { name, at, ...details };
    this.steps.push(step);
    return step;
  }

  /** Add a step for the first delta of a message; there may be hundreds more. */
  #addFirst(id, name, ts) {
    if (this.seenMessages.has(id)) return;
    this.seenMessages.add(id);
    this.#addStep(name, ts);
  }

  #applyPhase(data, ts) {
    const activeState = {
      accepted: "queued",
      start: "running",
      resume: "running",
      rescued: "running",
      waiting: "waiting",
    }[data.phase];
    if (activeState) this.state = activeState;
    const name = { accepted: "accepted", start: "started", resume: "resumed", rescued: "rescued", retry: "retry" }[data.phase];
    if (name) this.#addStep(name, ts, data.phase === "retry" ? { detail: data.kind } : {});
    else if (data.phase === "waiting") this.#addStep("waiting", ts, { detail: data.reason });
    else if (data.phase === "end" || data.phase === "error") {
      this.state = data.phase === "error" ? "failed" : data.aborted ? "stopped" : "done";
      this.#addStep(this.state, ts, this.state === "failed" ? { bad: true, detail: data.error } : {});
    }
  }

  #applyTool({ phase, name, toolCallId, isError, approval }, ts) {
    if (phase === "waiting") this.#addStep("asked", ts, { detail: name });
    if (phase === "decided") {
      const { status, by } = approval ?? {};
      this.#addStep(STEP_BY_STATUS[status] ?? "decided", ts, { detail: by, bad: status === "denied" });
    }
    if (phase === "start") this.tools.set(toolCallId, this.#addStep("tool", ts, { tool: name }));
    if (phase !== "result") return false;
    const step = this.tools.get(toolCallId) ?? this.#addStep("tool", ts, { tool: name }); // denied calls never start
    Object.assign(step, { until: ts, bad: Boolean(isError) });
    return true;
  }
}
