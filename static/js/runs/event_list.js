/** The raw events, paginated, each with collapsed JSON. */

import { cloneTemplate, setText } from "../shared/elements.js";
import { formatCount, formatDuration } from "../shared/formats.js";
import { fill } from "../shared/texts.js";
import { isError } from "./recording.js";

const PAGE_SIZE = 50;
const MAX_CHARACTERS = 100_000; // per event

export class EventList {
  constructor({ texts, onSelect }) {
    Object.assign(this, { texts, onSelect, events: [], first: 0, current: null });
    const byId = (id) => document.getElementById(id);
    this.elements = {
      section: byId("events"),
      list: byId("events-list"),
      count: byId("events-count"),
      page: byId("events-page"),
      older: byId("events-older"),
      newer: byId("events-newer"),
      stream: byId("events-stream"),
    };
    this.elements.older.addEventListener("click", () => this.#showPage(this.first - PAGE_SIZE));
    this.elements.newer.addEventListener("click", () => this.#showPage(this.first + PAGE_SIZE));
    this.elements.stream.addEventListener("change", () => this.#showPage(0));
  }

  setEvents(events) {
    this.events = events;
    this.elements.section.hidden = !events.length;
    setText(this.elements.count, formatCount(events.length));
    const knownStreams = new Set([...this.elements.stream.options].map(({ value }) => value));
    for (const stream of new Set(events.map((event) => event.stream))) {
      if (!knownStreams.has(stream)) this.elements.stream.add(new Option(stream, stream));
    }
    this.#showPage(this.first);
  }

  /** Highlight the current event and switch to its page, unless the list is filtered by stream. */
  mark(event) {
    this.current = event;
    if (!this.elements.stream.value) {
      const page = Math.floor(this.events.indexOf(event) / PAGE_SIZE) * PAGE_SIZE;
      if (page !== this.first) return this.#showPage(page);
    }
    for (const row of this.elements.list.children) row.classList.toggle("current", row.dataset.seq === String(event?.seq));
  }

  #showPage(first) {
    const stream = this.elements.stream.value;
    const filtered = stream ? this.events.filter((event) => event.stream === stream) : this.events;
    this.first = Math.max(0, Math.min(first, Math.floor((filtered.length - 1) / PAGE_SIZE) * PAGE_SIZE));
    const page = filtered.slice(this.first, this.first + PAGE_SIZE);
    const { list } = this.elements;
    const rowsBySeq = new Map([...list.children].map((row) => [row.dataset.seq, row]));
    list.replaceChildren(...page.map((event) => rowsBySeq.get(String(event.seq)) ?? this.#createRow(event)));
    setText(
      this.elements.page,
      fill(
        this.texts.page,
        formatCount(filtered.length ? this.first + 1 : 0),
        formatCount(this.first + page.length),
        formatCount(filtered.length),
      ),
    );
    this.elements.older.disabled = this.first === 0;
    this.elements.newer.disabled = this.first + PAGE_SIZE >= filtered.length;
    for (const row of list.children) row.classList.toggle("current", row.dataset.seq === String(this.current?.seq));
  }

  #createRow(event) {
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
  const parts = [
    data.phase,
    data.name,
    data.final ? "final" : "",
    data.reset ? "reset" : "",
    data.kind ?? data.reason ?? data.stopReason ?? "",
    data.approval?.decision ?? "",
    data.approval?.by ?? "",
  ];
  if (text) parts.push(`“${String(text).replace(/\s+/g, " ").slice(0, 120)}”`);
  if (data.characters) parts.push(`(${data.characters})`);
  return parts.filter(Boolean).join(" ");
}

/** Time since the run was accepted. */
export function formatOffset(ms, texts) {
  return ms ? `+${formatDuration(ms, texts)}` : "0";
}
