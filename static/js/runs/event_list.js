/** The raw events, a page at a time, each with its JSON folded away until somebody wants it. */

import { copyOf, put } from "../shared/elements.js";
import { count, duration } from "../shared/formats.js";
import { isError } from "./recording.js";
import { fill } from "../shared/texts.js";

const PAGE = 50;
const LONGEST = 100_000; // characters of one event's JSON

export class RawEvents {
  constructor({ words, onGo }) {
    Object.assign(this, { words, onGo, events: [], first: 0, current: null });
    const at = (id) => document.getElementById(id);
    this.part = { section: at("events"), list: at("events-list"), count: at("events-count"), page: at("events-page"), older: at("events-older"), newer: at("events-newer"), stream: at("events-stream") };
    this.part.older.addEventListener("click", () => this.#show(this.first - PAGE));
    this.part.newer.addEventListener("click", () => this.#show(this.first + PAGE));
    this.part.stream.addEventListener("change", () => this.#show(0));
  }

  take(events) {
    this.events = events;
    this.part.section.hidden = !events.length;
    put(this.part.count, count(events.length));
    const known = new Set([...this.part.stream.options].map(({ value }) => value));
    for (const stream of new Set(events.map((event) => event.stream))) if (!known.has(stream)) this.part.stream.add(new Option(stream, stream));
    this.#show(this.first);
  }

  /** The recorder stands at this event: its page is turned to, unless somebody has chosen what to see. */
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
    put(this.part.page, fill(this.words.page, count(chosen.length ? this.first + 1 : 0), count(this.first + page.length), count(chosen.length)));
    this.part.older.disabled = this.first === 0;
    this.part.newer.disabled = this.first + PAGE >= chosen.length;
    for (const row of list.children) row.classList.toggle("current", row.dataset.seq === String(this.current?.seq));
  }

  #row(event) {
    const row = copyOf("event-row");
    row.dataset.seq = event.seq;
    row.classList.toggle("bad", isError(event));
    put(row.querySelector(".seq"), String(event.seq));
    put(row.querySelector(".at"), since(event.ts - this.events[0].ts, this.words));
    put(row.querySelector(".stream"), event.stream);
    put(row.querySelector(".what"), brief(event));
    row.querySelector("details").addEventListener("toggle", ({ target }) => {
      if (target.open) put(row.querySelector("pre"), JSON.stringify(event.data, null, 2).slice(0, LONGEST));
    });
    row.querySelector(".go").addEventListener("click", () => this.onGo(event));
    return row;
  }
}

/** What an event says, in one line. */
export function brief({ data }) {
  const said = data.delta ?? data.partialResult ?? data.error ?? data.prompt ?? "";
  const words = [data.phase, data.name, data.final ? "final" : "", data.reset ? "reset" : "", data.kind ?? data.reason ?? data.stopReason ?? "", data.approval?.decision ?? "", data.approval?.by ?? ""];
  if (said) words.push(`“${String(said).replace(/\s+/g, " ").slice(0, 120)}”`);
  if (data.characters) words.push(`(${data.characters})`);
  return words.filter(Boolean).join(" ");
}

/** Time since the run was accepted. */
export function since(ms, words) {
  return ms ? `+${duration(ms, words)}` : "0";
}
