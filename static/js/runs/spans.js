/** Computes what a run spent its time on, and a time scale that compresses long pauses. No drawing. */

const MAX_LINEAR_PAUSE_MS = 10_000; // longer pauses are compressed

/** @returns {{queued, model, tools, waiting}} lists of {kind, from, to, label?, bad?, row?}; `to` is null for unfinished ones. */
export function computeSpans(events) {
  const lanes = { queued: [], model: [], tools: [], waiting: [] };
  const calls = new Map();
  const open = { queued: null, model: null, waiting: null };
  const begin = (lane, kind, from) => {
    if (open[lane]?.kind === kind) return;
    end(lane, from);
    open[lane] = { kind, from, to: null };
    lanes[lane].push(open[lane]);
  };
  const end = (lane, to) => {
    if (open[lane]) open[lane].to = to;
    open[lane] = null;
  };
  for (const { stream, ts, data } of events) {
    if (stream === "thinking") begin("model", "thinking", ts);
    else if (stream === "toolcall") begin("model", "words", ts);
    else if (stream === "assistant") data.final ? end("model", ts) : begin("model", data.reset ? "model" : "words", ts);
    else if (stream === "tool") applyTool(data, ts);
    else if (stream === "lifecycle") applyPhase(data.phase, ts);
  }
  assignRows(lanes.tools);
  return lanes;

  function applyTool({ phase: toolPhase, toolCallId, name, isError }, ts) {
    end("model", ts);
    if (toolPhase === "start") {
      calls.set(toolCallId, { kind: "tool", from: ts, to: null, label: name });
      lanes.tools.push(calls.get(toolCallId));
    } else if (toolPhase === "result" && calls.has(toolCallId)) {
      Object.assign(calls.get(toolCallId), { to: ts, bad: Boolean(isError) });
      if ([...calls.values()].every(({ to }) => to !== null)) begin("model", "model", ts);
    }
  }

  function applyPhase(name, ts) {
    end("waiting", ts);
    if (name === "accepted") return begin("queued", "queued", ts);
    end("queued", ts);
    if (name === "waiting") {
      end("model", ts);
      begin("waiting", "waiting", ts);
    } else if (name === "end" || name === "error") {
      end("model", ts);
      for (const call of calls.values()) call.to ??= ts;
    } else if (name !== "retry") begin("model", "model", ts);
  }
}

/** Put parallel calls in separate rows. */
function assignRows(calls) {
  const rowEnds = [];
  for (const call of calls) {
    const row = rowEnds.findIndex((until) => until !== null && until <= call.from);
    call.row = row === -1 ? rowEnds.length : row;
    rowEnds[call.row] = call.to;
  }
}

/** Maps times to positions and back. Positions are milliseconds with long pauses compressed; they increase with time. */
export class TimeScale {
  constructor(events, until) {
    this.points = []; // [ts, position]
    let position = 0;
    let previous = events[0]?.ts ?? 0;
    for (const ts of [...events.map((event) => event.ts), until]) {
      if (this.points.length && ts <= previous) continue;
      position += compressPause(ts - previous);
      this.points.push([ts, position]);
      previous = ts;
    }
    this.total = Math.max(1, position);
  }

  /** The position of a time. */
  toPosition(ts) {
    return interpolate(this.points, ts, 0, 1);
  }

  /** The time at a position. */
  toTime(position) {
    return interpolate(this.points, position, 1, 0);
  }

  /** The position of a time as a fraction of the whole scale, 0 to 1. */
  toFraction(ts) {
    return this.toPosition(ts) / this.total;
  }
}

function compressPause(gap) {
  return gap <= MAX_LINEAR_PAUSE_MS ? gap : MAX_LINEAR_PAUSE_MS * (1 + Math.log2(gap / MAX_LINEAR_PAUSE_MS) / 2);
}

function interpolate(points, value, from, to) {
  if (!points.length || value <= points[0][from]) return points[0]?.[to] ?? 0;
  let low = 0;
  let high = points.length - 1;
  if (value >= points[high][from]) return points[high][to];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][from] <= value) low = middle;
    else high = middle;
  }
  const fraction = (value - points[low][from]) / (points[high][from] - points[low][from]);
  return points[low][to] + fraction * (points[high][to] - points[low][to]);
}
