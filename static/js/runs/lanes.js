/** The lanes of the run timeline: queue, model, tools, waiting. Click or drag to seek. */

import { formatDuration } from "../shared/formats.js";
import { isError } from "./recording.js";
import { computeSpans, TimeScale } from "./spans.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW_HEIGHT = 20;
const BAR_HEIGHT = 14;
const AXIS_HEIGHT = 18;
const MAX_TOOL_ROWS = 4;
const AXIS_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

export class Lanes {
  constructor({ root, names, texts, onSeek }) {
    Object.assign(this, { root, names, texts, scale: new TimeScale([], 0) });
    this.playhead = createShape("line", { class: "playhead", y1: 0, y2: "100%" });
    const seek = ({ clientX }) => {
      const { left, width } = root.getBoundingClientRect();
      onSeek(Math.min(1, Math.max(0, (clientX - left) / width)) * this.scale.total);
    };
    root.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      root.setPointerCapture(event.pointerId);
      seek(event);
    });
    root.addEventListener("pointermove", (event) => root.hasPointerCapture(event.pointerId) && seek(event));
  }

  draw(events, now) {
    const begin = events[0]?.ts ?? now;
    this.scale = new TimeScale(events, now);
    const spans = computeSpans(events);
    const rows = { queued: 1, model: 1, tools: countToolRows(spans.tools), waiting: spans.waiting.length ? 1 : 0 };
    const shapes = [];
    const names = [];
    let top = 0;
    for (const lane of ["queued", "model", "tools", "waiting"]) {
      if (!rows[lane]) continue;
      names.push([lane, rows[lane]]);
      const height = rows[lane] * ROW_HEIGHT - (ROW_HEIGHT - BAR_HEIGHT) / 2;
      shapes.push(createShape("rect", { class: "ground", x: 0, y: top, width: "100%", height, rx: 3 }));
      for (const span of spans[lane]) shapes.push(this.#createBar(span, top, now));
      top += rows[lane] * ROW_HEIGHT + 4;
    }
    for (const event of events.filter(isError)) {
      const x = formatPercent(this.scale.toFraction(event.ts));
      shapes.push(createShape("line", { class: "fault", x1: x, x2: x, y1: 0, y2: top - 4 }));
    }
    shapes.push(...this.#createAxis(begin, now, top));
    this.root.setAttribute("height", top + AXIS_HEIGHT);
    this.root.replaceChildren(...shapes, this.playhead);
    this.#drawLaneNames(names);
  }

  /** Move the playhead to a position on the time scale. */
  movePlayhead(position) {
    const x = formatPercent(position / this.scale.total);
    this.playhead.setAttribute("x1", x);
    this.playhead.setAttribute("x2", x);
  }

  #createBar({ kind, from, to, label, bad, row = 0 }, top, now) {
    const until = to ?? now;
    const x = this.scale.toFraction(from);
    const bar = createShape("rect", {
      class: `span ${kind}${bad ? " bad" : ""}${to === null ? " going" : ""}`,
      x: formatPercent(x),
      y: top + Math.min(row, MAX_TOOL_ROWS - 1) * ROW_HEIGHT,
      width: formatPercent(Math.max(this.scale.toFraction(until) - x, 0.0025)),
      height: BAR_HEIGHT + 3,
      rx: 2,
    });
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${label ?? this.texts[`span${capitalize(kind)}`]} · ${formatDuration(until - from, this.texts)}`;
    bar.append(title);
    return bar;
  }

  /** Create ticks at round times, as many as fit. */
  *#createAxis(begin, now, top) {
    const totalSeconds = (now - begin) / 1000;
    const step = AXIS_STEPS.find((candidate) => totalSeconds / candidate <= 8) ?? 86_400;
    let lastFraction = -1;
    for (let seconds = 0; seconds <= totalSeconds; seconds += step) {
      const fraction = this.scale.toFraction(begin + seconds * 1000);
      if (fraction - lastFraction < 0.09 || fraction > 0.97) continue;
      lastFraction = fraction;
      const x = formatPercent(fraction);
      yield createShape("line", { class: "tick", x1: x, x2: x, y1: top - 2, y2: top + 3 });
      const text = createShape("text", { class: "time", x, y: top + 14, "text-anchor": fraction < 0.02 ? "start" : "middle" });
      text.textContent = seconds ? formatDuration(seconds * 1000, this.texts) : "0";
      yield text;
    }
  }

  #drawLaneNames(lanes) {
    const labels = lanes.map(([lane, rows]) => {
      const label = document.createElement("span");
      label.textContent = this.texts[`lane${capitalize(lane)}`];
      label.dataset.rows = rows;
      return label;
    });
    this.names.replaceChildren(...labels);
  }
}

function countToolRows(calls) {
  return Math.min(MAX_TOOL_ROWS, Math.max(1, ...calls.map(({ row }) => row + 1)));
}

function createShape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function formatPercent(fraction) {
  return `${Math.round(fraction * 100_000) / 1000}%`;
}

function capitalize(name) {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
