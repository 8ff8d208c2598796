/** Shows a run at a point in time: prompt, thinking, answers, tool calls and their results. */

import { cloneTemplate, setText } from "../shared/elements.js";
import { formatCount, formatDuration, formatMoney } from "../shared/formats.js";
import { describeFailure, describeReason } from "../shared/run_reasons.js";
import { fill } from "../shared/texts.js";
import { describeDecision } from "../shared/tool_decisions.js";

const TOOL_TONES = { finished: "good", failed: "bad", refused: "bad", running: "busy", waiting: "warn" };
const MAX_CHARACTERS = 20_000; // per text; the export has the full text

export class ReplayView {
  constructor({ root, texts }) {
    Object.assign(this, { root, texts, elements: new Map() });
  }

  /** @param view from Recording.viewAt() @param now the displayed time, for the duration of unfinished tool calls */
  render(view, now) {
    const prompt = { id: "asked", type: "asked", text: view.prompt, characters: view.promptCharacters };
    const blocks = [prompt, ...view.blocks];
    const ids = new Set(blocks.map(({ id }) => id));
    for (const [id, element] of this.elements) {
      if (ids.has(id)) continue;
      element.remove();
      this.elements.delete(id);
    }
    blocks.forEach((block, index) => {
      const element = this.#getElement(block);
      if (this.root.children[index] !== element) this.root.insertBefore(element, this.root.children[index] ?? null);
      element.classList.toggle("latest", index === blocks.length - 1);
      renderers[block.type](element, block, this.texts, now);
    });
  }

  #getElement({ id, type }) {
    if (!this.elements.has(id)) {
      const template = { asked: "story-message", message: "story-message", tool: "story-tool", note: "story-note" }[type];
      const element = cloneTemplate(template);
      element.dataset.type = type;
      this.elements.set(id, element);
    }
    return this.elements.get(id);
  }
}

const renderers = {
  asked(element, { text, characters }, texts) {
    setText(element.querySelector("h3"), texts.asked);
    setText(element.querySelector(":scope > .text"), clip(text));
    setText(element.querySelector(".facts"), describeHidden(characters, texts));
  },

  message(element, { text, thinking, characters, attempt, model, usage, done, calling }, texts) {
    setText(element.querySelector("h3"), texts.answer);
    const thought = element.querySelector(".thought");
    thought.hidden = !thinking;
    setText(thought.querySelector("summary"), texts.thinking);
    setText(thought.querySelector(".text"), clip(thinking));
    if (!done && thinking && !text) thought.open = true;
    setText(element.querySelector(":scope > .text"), clip(text));
    element.classList.toggle("open", !done);
    const facts = [
      describeHidden(characters, texts),
      calling && !done ? `${calling}(…)` : "",
      attempt > 1 ? fill(texts.attempt, attempt) : "",
      model ?? "",
    ];
    if (usage) facts.push(fill(texts.tokens, formatCount(usage.input ?? 0), formatCount(usage.output ?? 0)));
    if (usage?.costMicroUsd) facts.push(formatMoney(usage.costMicroUsd / 1e6));
    setText(element.querySelector(".facts"), facts.filter(Boolean).join(" · "));
  },

  tool(element, { name, status, args, startedAt, endedAt, verdict, approval, output }, texts, now) {
    setText(element.querySelector(".name"), name);
    const state = element.querySelector(".state");
    setText(state, texts[`tool${status[0].toUpperCase()}${status.slice(1)}`]);
    state.className = ["badge", "state", TOOL_TONES[status]].filter(Boolean).join(" ");
    setText(element.querySelector(".took"), status === "refused" ? "" : formatDuration((endedAt ?? now) - startedAt, texts));
    setText(
      element.querySelector(".verdict"),
      verdict?.layer || verdict?.admission || (verdict && approval)
        ? describeDecision({ ...verdict, allowed: verdict.verdict !== "refused", approval }, texts)
        : "",
    );
    setText(element.querySelector(".args"), args && Object.keys(args).length ? clip(JSON.stringify(args, null, 2)) : "");
    setText(element.querySelector(".output"), clip(output));
  },

  note(element, { note, detail, kind, bad }, texts) {
    const text = texts[`note${note[0].toUpperCase()}${note.slice(1)}`];
    const reason = detail ? describeFailure(detail, kind, texts) : describeReason(kind, texts);
    setText(element, text ? fill(text, reason) : [note, reason].filter(Boolean).join(": "));
    element.classList.toggle("bad", bad);
  },
};

function describeHidden(characters, texts) {
  return characters ? fill(texts.characters, formatCount(characters)) : "";
}

function clip(text) {
  return text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text;
}
