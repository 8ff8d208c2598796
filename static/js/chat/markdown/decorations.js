/** What rendered text gets on the page: code with its language, a button to copy and one to wrap; tables that scroll by themselves; maths. */

import { copyOf } from "../../shared/elements.js";
import { showMaths } from "./math.js";

/** An empty box for code. */
export function codeFrame(language, words) {
  const frame = copyOf("code-block");
  frame.querySelector(".language").textContent = language;
  frame.querySelector("pre").setAttribute("aria-label", language || words.code);
  return frame;
}

/** @param {Element|DocumentFragment} root */
export function dressUp(root, words) {
  for (const pre of root.querySelectorAll("pre.code")) {
    const frame = codeFrame(pre.dataset.language ?? "", words);
    pre.replaceWith(frame);
    pre.tabIndex = 0; // wide code is scrolled with the arrow keys
    pre.setAttribute("aria-label", frame.querySelector("pre").getAttribute("aria-label"));
    pre.setAttribute("role", "group");
    frame.querySelector("pre").replaceWith(pre);
  }
  for (const table of root.querySelectorAll("table")) {
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", words.table);
    table.replaceWith(box);
    box.append(table);
  }
  // The page's own headings come first: title, message.
  for (const heading of root.querySelectorAll("h1, h2, h3, h4")) heading.setAttribute("aria-level", Number(heading.tagName[1]) + 2);
  for (const box of root.querySelectorAll("input[type=checkbox]")) box.setAttribute("aria-label", words.task);
  for (const maths of root.querySelectorAll(".math")) showMaths(maths);
}

/** Clicks on the buttons of code, wherever it is. */
export function startCodeButtons(app, root) {
  root.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-code]");
    if (!button) return;
    const frame = button.closest(".code-block");
    if (button.dataset.code === "wrap") {
      button.setAttribute("aria-pressed", String(frame.classList.toggle("wrapped")));
      return;
    }
    await copyText(app, frame.querySelector("pre").textContent);
  });
}

/** Put text on the clipboard. Pages on plain HTTP have no clipboard of their own, so there the old way is tried. */
export async function copyText(app, text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else if (!copyTheOldWay(text)) throw new Error("refused");
    app.notice(app.words.copied);
  } catch {
    app.notice(app.words.notCopied);
  }
}

function copyTheOldWay(text) {
  const holder = document.createElement("textarea");
  const before = document.activeElement;
  holder.className = "hidden";
  holder.value = text;
  document.body.append(holder);
  holder.select();
  const done = document.execCommand("copy");
  holder.remove();
  before?.focus();
  return done;
}
