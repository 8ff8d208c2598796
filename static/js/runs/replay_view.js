/** What could be seen at a moment: the question, thoughts, words, tool calls and what became of them. */

import { copyOf, put } from "../shared/elements.js";
import { count, duration, money } from "../shared/formats.js";
import { failure, reasonWords } from "../shared/run_reasons.js";
import { verdictWords } from "../shared/tool_decisions.js";
import { fill } from "../shared/texts.js";

const LONGEST = 20_000; // characters of one text; the export has all of them

export class Story {
  constructor({ root, words }) {
    Object.assign(this, { root, words, shown: new Map() });
  }

  /** @param view of Recording.viewAt, @param now the moment's time, so that what goes on has a duration */
  draw(view, now) {
    const asked = { id: "asked", type: "asked", text: view.prompt, characters: view.promptCharacters };
    const blocks = [asked, ...view.blocks];
    const wanted = new Set(blocks.map(({ id }) => id));
    for (const [id, element] of this.shown) {
      if (wanted.has(id)) continue;
      element.remove();
      this.shown.delete(id);
    }
    blocks.forEach((block, place) => {
      const element = this.#element(block);
      if (this.root.children[place] !== element) this.root.insertBefore(element, this.root.children[place] ?? null);
      element.classList.toggle("latest", place === blocks.length - 1);
      draw[block.type](element, block, this.words, now);
    });
  }

  #element({ id, type }) {
    if (!this.shown.has(id)) {
      const template = { asked: "story-message", message: "story-message", tool: "story-tool", note: "story-note" }[type];
      const element = copyOf(template);
      element.dataset.type = type;
      this.shown.set(id, element);
    }
    return this.shown.get(id);
  }
}

const draw = {
  asked(element, { text, characters }, words) {
    put(element.querySelector("h3"), words.asked);
    put(element.querySelector(":scope > .text"), clipped(text));
    put(element.querySelector(".facts"), hiddenWords(characters, words));
  },

  message(element, { text, thinking, characters, attempt, model, usage, done, calling }, words) {
    put(element.querySelector("h3"), words.answer);
    const thought = element.querySelector(".thought");
    thought.hidden = !thinking;
    put(thought.querySelector("summary"), words.thinking);
    put(thought.querySelector(".text"), clipped(thinking));
    if (!done && thinking && !text) thought.open = true;
    put(element.querySelector(":scope > .text"), clipped(text));
    element.classList.toggle("open", !done);
    const facts = [hiddenWords(characters, words), calling && !done ? `${calling}(…)` : "", attempt > 1 ? fill(words.attempt, attempt) : "", model ?? ""];
    if (usage) facts.push(fill(words.tokens, count(usage.input ?? 0), count(usage.output ?? 0)));
    if (usage?.costMicroUsd) facts.push(money(usage.costMicroUsd / 1e6));
    put(element.querySelector(".facts"), facts.filter(Boolean).join(" · "));
  },

  tool(element, { name, status, args, began, ended, verdict, question, output }, words, now) {
    put(element.querySelector(".name"), name);
    const state = element.querySelector(".state");
    put(state, words[`tool${status[0].toUpperCase()}${status.slice(1)}`]);
    state.className = `badge state ${{ finished: "good", failed: "bad", refused: "bad", running: "busy", waiting: "warn" }[status] ?? ""}`;
    put(element.querySelector(".took"), status === "refused" ? "" : duration((ended ?? now) - began, words));
    put(element.querySelector(".verdict"), verdict?.layer || verdict?.admission || (verdict && question) ? verdictWords({ ...verdict, allowed: verdict.verdict !== "refused", question }, words) : "");
    put(element.querySelector(".args"), args && Object.keys(args).length ? clipped(JSON.stringify(args, null, 2)) : "");
    put(element.querySelector(".output"), clipped(output));
  },

  note(element, { note, detail, kind, bad }, words) {
    const known = words[`note${note[0].toUpperCase()}${note.slice(1)}`];
    const why = detail ? failure(detail, kind, words) : reasonWords(kind, words);
    put(element, known ? fill(known, why) : [note, why].filter(Boolean).join(": "));
    element.classList.toggle("bad", bad);
  },
};

function hiddenWords(characters, words) {
  return characters ? fill(words.characters, count(characters)) : "";
}

function clipped(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
