/** What a run's time went into, and a scale on which long pauses do not hide the rest. Draws nothing. */

const PAUSE_MS = 10_000; // a longer silence is drawn shorter than it was

/** @returns {{queued, model, tools, waiting}} lists of {kind, from, to, label?, bad?, row?}; `to` is null while it goes on. */
export function spansOf(events) {
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

/** Calls side by side get rows of their own. */
function stack(calls) {
  const free = [];
  for (const call of calls) {
    const row = free.findIndex((until) => until !== null && until <= call.from);
    call.row = row === -1 ? free.length : row;
    free[call.row] = call.to;
  }
}

/** Moments to a place between 0 and 1 and back. Continuous and rising, so what came later stands further right. */
export class Scale {
  constructor(events, until) {
    this.points = []; // [ts, drawn ms]
    let drawn = 0;
    let before = events[0]?.ts ?? 0;
    for (const ts of [...events.map((event) => event.ts), until]) {
      if (this.points.length && ts <= before) continue;
      drawn += shown(ts - before);
      this.points.push([ts, drawn]);
      before = ts;
    }
    this.total = Math.max(1, drawn);
  }

  /** Drawn milliseconds since the beginning. */
  at(ts) {
    return between(this.points, ts, 0, 1);
  }

  /** The moment that stands at so many drawn milliseconds. */
  back(drawn) {
    return between(this.points, drawn, 1, 0);
  }

  share(ts) {
    return this.at(ts) / this.total;
  }
}

function shown(gap) {
  return gap <= PAUSE_MS ? gap : PAUSE_MS * (1 + Math.log2(gap / PAUSE_MS) / 2);
}

function between(points, value, from, to) {
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
