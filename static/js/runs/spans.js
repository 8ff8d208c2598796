/** What a run spent its time on, and a scale that compresses long pauses. No drawing. */

const PAUSE_MS = 10_000; // longer pauses are compressed

/** @returns {{queued, model, tools, waiting}} lists of {kind, from, to, label?, bad?, row?}; `to` is null while it lasts. */
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
    else if (stream === "tool") tool(data, ts);
    else if (stream === "lifecycle") phase(data.phase, ts);
  }
  stack(lanes.tools);
  return lanes;

  function tool({ phase: what, toolCallId, name, isError }, ts) {
    end("model", ts);
    if (what === "start") {
      calls.set(toolCallId, { kind: "tool", from: ts, to: null, label: name });
      lanes.tools.push(calls.get(toolCallId));
    } else if (what === "result" && calls.has(toolCallId)) {
      Object.assign(calls.get(toolCallId), { to: ts, bad: Boolean(isError) });
      if ([...calls.values()].every(({ to }) => to !== null)) begin("model", "model", ts);
    }
  }

  function phase(name, ts) {
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
function stack(calls) {
  const free = [];
  for (const call of calls) {
    const row = free.findIndex((until) => until !== null && until <= call.from);
    call.row = row === -1 ? free.length : row;
    free[call.row] = call.to;
  }
}

/** Maps times to positions between 0 and 1 and back. Continuous and increasing, so later events are further right. */
export class TimeScale {
  constructor(events, until) {
    this.points = []; // [ts, drawn ms]
    let drawn = 0;
    let before = events[0]?.ts ?? 0;
    for (const ts of [...events.map((event) => event.ts), until]) {
      if (this.points.length && ts <= before) continue;
      drawn += drawnLength(ts - before);
      this.points.push([ts, drawn]);
      before = ts;
    }
    this.total = Math.max(1, drawn);
  }

  /** Drawn milliseconds since the start. */
  toDrawn(ts) {
    return interpolate(this.points, ts, 0, 1);
  }

  /** The time at a position in drawn milliseconds. */
  toTime(drawn) {
    return interpolate(this.points, drawn, 1, 0);
  }

  share(ts) {
    return this.toDrawn(ts) / this.total;
  }
}

function drawnLength(gap) {
  return gap <= PAUSE_MS ? gap : PAUSE_MS * (1 + Math.log2(gap / PAUSE_MS) / 2);
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
  const part = (value - points[low][from]) / (points[high][from] - points[low][from]);
  return points[low][to] + part * (points[high][to] - points[low][to]);
}
