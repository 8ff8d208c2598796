/** A tool call: name, arguments, who allowed or denied it, its output while it runs and its result. */

import { cloneTemplate, getText, setText } from "../../shared/elements.js";
import { formatDuration, formatElapsed } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { everySecond, nextFrame } from "../../shared/timing.js";
import { describeDecision, describeDecisionDetails, isDecidedByPeople } from "../../shared/tool_decisions.js";
import { ApprovalRequestView } from "./approval_request.js";
import { renderFiles } from "./message_files.js";

const MAX_LINES = 24; // longer results are collapsed
const MAX_CHARACTERS = 3000;
const UNFINISHED = ["running", "waiting"];
const END_NAMES = { killed: "Killed", timed_out: "TimedOut", lost: "Lost" };
// Arguments that summarize a call, in this order.
const SUMMARY_ARGUMENTS = ["command", "path", "file", "pattern", "query", "url", "name"];

export class ToolCard {
  /**
   * URLs, empty without permission: `explainUrl` explains the decision, `allowRequestsUrl` is the page where the agent can be
   * allowed to request commands.
   */
  constructor({ texts, name, explainUrl = "", allowRequestsUrl = "" }) {
    Object.assign(this, { texts, explainUrl, allowRequestsUrl });
    this.element = cloneTemplate("tool-card");
    this.part = (selector) => this.element.querySelector(selector);
    this.part(".name").textContent = name;
    this.output = "";
    this.paint = this.paint.bind(this);
    this.part(".show-all").addEventListener("click", () => this.#showAll());
    this.#setStatus("running", texts.toolRunning);
  }

  showArguments(args) {
    const entries = Object.entries(args ?? {});
    setText(this.part(".about"), summarize(args ?? {}));
    this.part(".arguments").replaceChildren(...entries.flatMap(([name, value]) => renderArgument(name, value)));
    this.part(".asked").hidden = !entries.length;
  }

  /** Show the approval request, pending or decided. */
  showApproval(approval) {
    this.approval ??= new ApprovalRequestView({ texts: this.texts, container: this.part(".approval") });
    this.approval.show(approval);
    this.#renderDecision();
    const { status } = this.element.dataset;
    if (approval.status === "pending" && UNFINISHED.includes(status)) this.#setStatus("waiting", this.texts.toolWaiting);
    else if (status === "waiting") this.#setStatus("running", this.texts.toolDecided);
  }

  /** The call starts now (`ts` by the server's clock). */
  start(ts) {
    if (!UNFINISHED.includes(this.element.dataset.status) || this.stopClock) return;
    this.#setStatus("running", this.texts.toolRunning);
    this.startedAt = ts;
    const localStart = Date.now();
    this.stopClock = everySecond(() => setText(this.part(".duration"), formatElapsed(Date.now() - localStart, this.texts)));
  }

  /** Show the output so far. */
  update(partial) {
    this.output = typeof partial === "string" ? partial : getText(partial?.content ?? JSON.stringify(partial, null, 2));
    this.element.classList.add("live");
    nextFrame(this.paint);
  }

  paint() {
    const isLive = this.element.classList.contains("live");
    const visible = isLive ? lastLines(this.output) : this.all ? this.output : firstLines(this.output);
    this.part(".result pre").textContent = visible;
    this.part(".result").hidden = !this.output;
    const isFolded = !isLive && visible.length < this.output.length;
    setText(this.part(".show-all"), isFolded ? fill(this.texts.showAll, this.output.split("\n").length) : "");
  }

  /**
   * @param {{content, isError, decision, durationMs?, ts?, details?, isMissingRule?}} result
   *   `decision` is {allowed, layer?, admission?, why?}; `isMissingRule`: denied because no exec rule applies
   */
  finish({ content, isError, decision, durationMs = null, ts = null, details = null, isMissingRule = false }) {
    const { texts } = this;
    this.#stopClock();
    this.element.classList.remove("live");
    const isDenied = !decision.allowed;
    this.#setStatus(
      isDenied ? "refused" : isError ? "failed" : "done",
      isDenied ? "" : isError ? texts.toolFailed : texts.toolDone,
    );
    const duration = durationMs ?? (this.startedAt && ts ? ts - this.startedAt : null);
    setText(this.part(".duration"), duration === null || isDenied ? "" : formatDuration(duration, texts));
    this.output = getText(content);
    this.decision = decision;
    this.#renderDecision();
    this.part(".let-ask").hidden = !(isDenied && this.allowRequestsUrl && isMissingRule);
    if (this.allowRequestsUrl) this.part(".let-ask a").href = this.allowRequestsUrl;
    this.part(".explain").hidden = !this.explainUrl;
    if (this.explainUrl) this.part(".explain a").href = this.explainUrl;
    this.part(".files").replaceChildren(...renderFiles(content, texts));
    if (details?.status === "running" && !isDenied) this.#setStatus("background", texts.toolInBackground);
    this.paint();
  }

  /** A command running in the background has ended. @param {{status, exitCode, durationMs}} end */
  showCommandEnd({ status, exitCode, durationMs }) {
    const { texts } = this;
    const endText = status === "exited" ? fill(texts.commandExited, exitCode) : texts[`command${END_NAMES[status]}`];
    this.#setStatus(exitCode === 0 ? "done" : "failed", endText);
    setText(this.part(".duration"), formatDuration(durationMs, texts));
  }

  /** The run has ended: a call without a result was interrupted. */
  interrupt() {
    if (!UNFINISHED.includes(this.element.dataset.status)) return;
    this.#stopClock();
    this.element.classList.remove("live");
    this.#setStatus("failed", this.texts.toolStopped);
    this.paint();
  }

  /** Show who decided: a person, a grant, the exec rules or a policy layer. For commands, the layers are in the details. */
  #renderDecision() {
    const { decision, texts } = this;
    if (!decision) return;
    const approval = this.approval?.approval;
    this.element.dataset.by = decision.admission?.by ?? "";
    setText(this.part(".verdict"), describeDecision({ ...decision, approval }, texts));
    setText(this.part(".layers"), describeDecisionDetails({ ...decision, approval }, texts));
    // A person's reason is shown with their decision.
    setText(this.part(".why"), decision.allowed || isDecidedByPeople(false, approval) ? "" : this.output || decision.why);
  }

  #setStatus(status, text) {
    this.element.dataset.status = status;
    setText(this.part(".status"), text);
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

/** Get the decision about a call from a live event or a stored result. */
export function getDecision({ verdict, meta, details }) {
  if (verdict) return verdict;
  const isDenied = meta?.verdict === "refused" || details?.code === "tool_not_allowed";
  return { allowed: !isDenied, layer: meta?.layer ?? details?.layer, admission: meta?.admission };
}

/** Whether a command was denied because no exec rule applies. tools_app/approvals/command_decision.py defines the code. */
export function isMissingRule(details) {
  return details?.code === "exec_no_rule";
}

function summarize(args) {
  const name = SUMMARY_ARGUMENTS.find((argument) => typeof args[argument] === "string" && args[argument]);
  return name ? args[name].split("\n", 1)[0].slice(0, 160) : "";
}

/** Render strings with their line breaks and everything else as JSON. */
function renderArgument(name, value) {
  const nameElement = document.createElement("dt");
  const valueElement = document.createElement("dd");
  nameElement.textContent = name;
  valueElement.textContent = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return [nameElement, valueElement];
}

function firstLines(text) {
  return text.split("\n", MAX_LINES).join("\n").slice(0, MAX_CHARACTERS);
}

function lastLines(text) {
  return text.slice(-MAX_CHARACTERS).split("\n").slice(-MAX_LINES).join("\n");
}
