/** The lanes of the run timeline: queue, model, tools, waiting. Click or drag to seek. */

import { formatDuration } from "../shared/formats.js";
import { isError } from "./recording.js";
import { computeSpans, TimeScale } from "./spans.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 20;
const BAR = 14;
const AXIS = 18;
const MAX_TOOL_ROWS = 4;
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];

export class Lanes {
  constructor({ root, names, texts, onSeek }) {
    Object.assign(this, { root, names, texts, scale: new TimeScale([], 0) });
    this.head = shape("line", { class: "playhead", y1: 0, y2: "100%" });
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
    const rows = { queued: 1, model: 1, tools: toolRows(spans.tools), waiting: spans.waiting.length ? 1 : 0 };
    const shapes = [];
    const names = [];
    let top = 0;
    for (const lane of ["queued", "model", "tools", "waiting"]) {
      if (!rows[lane]) continue;
      names.push([lane, rows[lane]]);
      shapes.push(shape("rect", { class: "ground", x: 0, y: top, width: "100%", height: rows[lane] * ROW - (ROW - BAR) / 2, rx: 3 }));
      for (const span of spans[lane]) shapes.push(this.#bar(span, top, now));
      top += rows[lane] * ROW + 4;
    }
    for (const event of events.filter(isError)) shapes.push(shape("line", { class: "fault", x1: percent(this.scale.share(event.ts)), x2: percent(this.scale.share(event.ts)), y1: 0, y2: top - 4 }));
    shapes.push(...this.#axis(begin, now, top));
    this.root.setAttribute("height", top + AXIS);
    this.root.replaceChildren(...shapes, this.head);
    this.#drawNames(names);
  }

  /** Move the playhead to a position in drawn milliseconds. */
  point(drawn) {
    const x = percent(drawn / this.scale.total);
    this.head.setAttribute("x1", x);
    this.head.setAttribute("x2", x);
  }

  #bar({ kind, from, to, label, bad, row = 0 }, top, now) {
    const until = to ?? now;
    const x = this.scale.share(from);
    const bar = shape("rect", {
      class: `span ${kind}${bad ? " bad" : ""}${to === null ? " going" : ""}`,
      x: percent(x),
      y: top + Math.min(row, MAX_TOOL_ROWS - 1) * ROW,
      width: percent(Math.max(this.scale.share(until) - x, 0.0025)),
      height: BAR + 3,
      rx: 2,
    });
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${label ?? this.texts[`span${capitalize(kind)}`]} · ${formatDuration(until - from, this.texts)}`;
    bar.append(title);
    return bar;
  }

  /** Round times, as many as fit. */
  *#axis(begin, now, top) {
    const whole = (now - begin) / 1000;
    const step = STEPS.find((each) => whole / each <= 8) ?? 86_400;
    let right = -1;
    for (let at = 0; at <= whole; at += step) {
      const share = this.scale.share(begin + at * 1000);
      if (share - right < 0.09 || share > 0.97) continue;
      right = share;
      yield shape("line", { class: "tick", x1: percent(share), x2: percent(share), y1: top - 2, y2: top + 3 });
      const text = shape("text", { class: "time", x: percent(share), y: top + 14, "text-anchor": share < 0.02 ? "start" : "middle" });
      text.textContent = at ? formatDuration(at * 1000, this.texts) : "0";
      yield text;
    }
  }

  #drawNames(lanes) {
    const shown = lanes.map(([lane, rows]) => {
      const name = document.createElement("span");
      name.textContent = this.texts[`lane${capitalize(lane)}`];
      name.dataset.rows = rows;
      return name;
    });
    this.names.replaceChildren(...shown);
  }
}

function toolRows(calls) {
  return Math.min(MAX_TOOL_ROWS, Math.max(1, ...calls.map(({ row }) => row + 1)));
}

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function percent(share) {
  return `${Math.round(share * 100_000) / 1000}%`;
}

function capitalize(word) {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
