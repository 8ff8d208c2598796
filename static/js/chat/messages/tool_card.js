/** One tool call: its name, what it was asked, who allowed or refused it, what it says while it runs and at the end. */

import { ApprovalBox } from "./approval_request.js";
import { copyOf, put, textOf } from "../../shared/elements.js";
import { counted, duration } from "../../shared/formats.js";
import { everySecond, nextFrame } from "../../shared/timing.js";
import { attachmentsOf } from "./message_files.js";
import { behindVerdict, isByPeople, verdictWords } from "../../shared/tool_decisions.js";
import { fill } from "../../shared/texts.js";

const MOST_LINES = 24; // of a result that is not folded
const MOST_CHARACTERS = 3000;
const OPEN = ["running", "waiting"];
const ENDS = { killed: "Killed", timed_out: "TimedOut", lost: "Lost" };
const TELLING = ["command", "path", "file", "pattern", "query", "url", "name"]; // arguments that say what a call is about

export class ToolCard {
  /** Addresses, empty for who may not open them: `explained` explains the decision, at `letAsk` the agent may be let ask. */
  constructor({ words, name, explained = "", letAsk = "" }) {
    Object.assign(this, { words, explained, letAsk });
    this.element = copyOf("tool-card");
    this.part = (selector) => this.element.querySelector(selector);
    this.part(".name").textContent = name;
    this.output = "";
    this.paint = this.paint.bind(this);
    this.part(".show-all").addEventListener("click", () => this.#showAll());
    this.#status("running", words.toolRunning);
  }

  ask(args) {
    const entries = Object.entries(args ?? {});
    put(this.part(".about"), about(args ?? {}));
    this.part(".arguments").replaceChildren(...entries.flatMap(([name, value]) => row(name, value)));
    this.part(".asked").hidden = !entries.length;
  }

  /** It waits for people, or did: the question stands below its name. */
  asks(approval) {
    this.approval ??= new ApprovalBox({ words: this.words, holder: this.part(".approval") });
    this.approval.show(approval);
    this.#drawVerdict();
    if (approval.status === "pending" && OPEN.includes(this.element.dataset.status)) this.#status("waiting", this.words.toolWaiting);
    else if (this.element.dataset.status === "waiting") this.#status("running", this.words.toolDecided);
  }

  /** It begins, now (`ts` by the server's clock). */
  start(ts) {
    if (!OPEN.includes(this.element.dataset.status) || this.stopClock) return;
    this.#status("running", this.words.toolRunning);
    this.began = ts;
    const from = Date.now();
    this.stopClock = everySecond(() => put(this.part(".duration"), counted(Date.now() - from, this.words)));
  }

  /** What it has said so far. */
  update(partial) {
    this.output = typeof partial === "string" ? partial : textOf(partial?.content ?? JSON.stringify(partial, null, 2));
    this.element.classList.add("live");
    nextFrame(this.paint);
  }

  paint() {
    const live = this.element.classList.contains("live");
    const shown = live ? lastLines(this.output) : this.all ? this.output : firstLines(this.output);
    this.part(".result pre").textContent = shown;
    this.part(".result").hidden = !this.output;
    const folded = !live && shown.length < this.output.length;
    put(this.part(".show-all"), folded ? fill(this.words.showAll, this.output.split("\n").length) : "");
  }

  /** @param {{content, isError, verdict, durationMs?, ts?, letAsk?}} result `verdict` is {allowed, layer?, admission?, why?}; `letAsk`: the agent could be let ask. */
  finish({ content, isError, verdict, durationMs = null, ts = null, details = null, letAsk = false }) {
    const { words } = this;
    this.#stopClock();
    this.element.classList.remove("live");
    const refused = !verdict.allowed;
    this.#status(refused ? "refused" : isError ? "failed" : "done", refused ? "" : isError ? words.toolFailed : words.toolDone);
    const took = durationMs ?? (this.began && ts ? ts - this.began : null);
    put(this.part(".duration"), took === null || refused ? "" : duration(took, words));
    this.output = textOf(content);
    this.verdict = verdict;
    this.#drawVerdict();
    this.part(".let-ask").hidden = !(refused && this.letAsk && letAsk);
    if (this.letAsk) this.part(".let-ask a").href = this.letAsk;
    this.part(".explain").hidden = !this.explained;
    if (this.explained) this.part(".explain a").href = this.explained;
    this.part(".files").replaceChildren(...attachmentsOf(content, words));
    if (details?.status === "running" && !refused) this.#status("background", words.toolInBackground);
    this.paint();
  }

  /** A command that went on in the background has ended. @param {{status, exitCode, durationMs}} end */
  ended({ status, exitCode, durationMs }) {
    const { words } = this;
    const how = status === "exited" ? fill(words.commandExited, exitCode) : words[`command${ENDS[status]}`];
    this.#status(exitCode === 0 ? "done" : "failed", how);
    put(this.part(".duration"), duration(durationMs, words));
  }

  /** Nothing runs in a run that has ended; a call without a result was cut off. */
  cutOff() {
    if (!OPEN.includes(this.element.dataset.status)) return;
    this.#stopClock();
    this.element.classList.remove("live");
    this.#status("failed", this.words.toolStopped);
    this.paint();
  }

  /** Who decided: people, a grant or the rules where it is a command, and then the layers are told in the details. */
  #drawVerdict() {
    const { verdict, words } = this;
    if (!verdict) return;
    const question = this.approval?.approval;
    this.element.dataset.by = verdict.admission?.by ?? "";
    put(this.part(".verdict"), verdictWords({ ...verdict, question }, words));
    put(this.part(".layers"), behindVerdict({ ...verdict, question }, words));
    put(this.part(".why"), verdict.allowed || isByPeople(false, question) ? "" : this.output || verdict.why); // what people said stands in their answer
  }

  #status(status, text) {
    this.element.dataset.status = status;
    put(this.part(".status"), text);
  }

  #stopClock() {
    this.stopClock?.();
    this.stopClock = null;
  }

  #showAll() {
    this.all = true;
    this.paint();
    this.part(".result pre").focus();
  }
}

/** How a call was decided, from what the live event or the stored result says about it. */
export function verdictOf({ verdict, meta, details }) {
  if (verdict) return verdict;
  const refused = meta?.verdict === "refused" || details?.code === "tool_not_allowed";
  return { allowed: !refused, layer: meta?.layer ?? details?.layer, admission: meta?.admission };
}

/** A command was refused because nobody has said anything about commands. The code is that of tools_app/approvals/supervise.py. */
export function isForWantOfARule(details) {
  return details?.code === "exec_no_rule";
}

function about(args) {
  const name = TELLING.find((each) => typeof args[each] === "string" && args[each]);
  return name ? args[name].split("\n", 1)[0].slice(0, 160) : "";
}

/** Text as it is, with its line breaks; everything else as JSON. */
function row(name, value) {
  const term = document.createElement("dt");
  const text = document.createElement("dd");
  term.textContent = name;
  text.textContent = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return [term, text];
}

function firstLines(text) {
  return text.split("\n", MOST_LINES).join("\n").slice(0, MOST_CHARACTERS);
}

function lastLines(text) {
  return text.slice(-MOST_CHARACTERS).split("\n").slice(-MOST_LINES).join("\n");
}
