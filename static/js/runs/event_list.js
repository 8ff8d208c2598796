/** The raw events in pages, each with collapsed JSON. */

import { cloneTemplate, setText } from "../shared/elements.js";
import { formatCount, formatDuration } from "../shared/formats.js";
import { fill } from "../shared/texts.js";
import { isError } from "./recording.js";

const PAGE = 50;
const MAX_CHARACTERS = 100_000; // of one event's JSON

export class EventList {
  constructor({ texts, onSelect }) {
    Object.assign(this, { texts, onSelect, events: [], first: 0, current: null });
    const byId = (id) => document.getElementById(id);
    this.part = { section: byId("events"), list: byId("events-list"), count: byId("events-count"), page: byId("events-page"), older: byId("events-older"), newer: byId("events-newer"), stream: byId("events-stream") };
    this.part.older.addEventListener("click", () => this.#show(this.first - PAGE));
    this.part.newer.addEventListener("click", () => this.#show(this.first + PAGE));
    this.part.stream.addEventListener("change", () => this.#show(0));
  }

  setEvents(events) {
    this.events = events;
    this.part.section.hidden = !events.length;
    setText(this.part.count, formatCount(events.length));
    const known = new Set([...this.part.stream.options].map(({ value }) => value));
    for (const stream of new Set(events.map((event) => event.stream))) if (!known.has(stream)) this.part.stream.add(new Option(stream, stream));
    this.#show(this.first);
  }

  /** Highlight the current event and turn to its page, unless a stream is selected. */
  mark(event) {
    this.current = event;
    if (!this.part.stream.value) {
      const page = Math.floor(this.events.indexOf(event) / PAGE) * PAGE;
      if (page !== this.first) return this.#show(page);
    }
    for (const row of this.part.list.children) row.classList.toggle("current", row.dataset.seq === String(event?.seq));
  }

  #show(first) {
    const stream = this.part.stream.value;
    const chosen = stream ? this.events.filter((event) => event.stream === stream) : this.events;
    this.first = Math.max(0, Math.min(first, Math.floor((chosen.length - 1) / PAGE) * PAGE));
    const page = chosen.slice(this.first, this.first + PAGE);
    const { list } = this.part;
    const rows = new Map([...list.children].map((row) => [row.dataset.seq, row]));
    list.replaceChildren(...page.map((event) => rows.get(String(event.seq)) ?? this.#row(event)));
    setText(this.part.page, fill(this.texts.page, formatCount(chosen.length ? this.first + 1 : 0), formatCount(this.first + page.length), formatCount(chosen.length)));
    this.part.older.disabled = this.first === 0;
    this.part.newer.disabled = this.first + PAGE >= chosen.length;
    for (const row of list.children) row.classList.toggle("current", row.dataset.seq === String(this.current?.seq));
  }

  #row(event) {
    const row = cloneTemplate("event-row");
    row.dataset.seq = event.seq;
    row.classList.toggle("bad", isError(event));
    setText(row.querySelector(".seq"), String(event.seq));
    setText(row.querySelector(".at"), formatOffset(event.ts - this.events[0].ts, this.texts));
    setText(row.querySelector(".stream"), event.stream);
    setText(row.querySelector(".what"), summarizeEvent(event));
    row.querySelector("details").addEventListener("toggle", ({ target }) => {
      if (target.open) setText(row.querySelector("pre"), JSON.stringify(event.data, null, 2).slice(0, MAX_CHARACTERS));
    });
    row.querySelector(".go").addEventListener("click", () => this.onSelect(event));
    return row;
  }
}

/** Summarize an event in one line. */
export function summarizeEvent({ data }) {
  const text = data.delta ?? data.partialResult ?? data.error ?? data.prompt ?? "";
  const parts = [data.phase, data.name, data.final ? "final" : "", data.reset ? "reset" : "", data.kind ?? data.reason ?? data.stopReason ?? "", data.approval?.decision ?? "", data.approval?.by ?? ""];
  if (text) parts.push(`“${String(text).replace(/\s+/g, " ").slice(0, 120)}”`);
  if (data.characters) parts.push(`(${data.characters})`);
  return parts.filter(Boolean).join(" ");
}

/** Time since the run was accepted. */
export function formatOffset(ms, texts) {
  return ms ? `+${formatDuration(ms, texts)}` : "0";
}
