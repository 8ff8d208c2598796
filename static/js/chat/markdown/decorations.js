/** Adds controls to rendered text: language, copy and wrap buttons for code, scrolling for wide tables, and math. */

import { cloneTemplate } from "../../shared/elements.js";
import { renderMath } from "./math.js";

/** An empty frame for code. */
export function createCodeFrame(language, texts) {
  const frame = cloneTemplate("code-block");
  frame.querySelector(".language").textContent = language;
  frame.querySelector("pre").setAttribute("aria-label", language || texts.code);
  return frame;
}

/** @param {Element|DocumentFragment} root */
export function decorate(root, texts) {
  for (const pre of root.querySelectorAll("pre.code")) {
    const frame = createCodeFrame(pre.dataset.language ?? "", texts);
    pre.replaceWith(frame);
    pre.tabIndex = 0; // wide code scrolls with the arrow keys
    pre.setAttribute("aria-label", frame.querySelector("pre").getAttribute("aria-label"));
    pre.setAttribute("role", "group");
    frame.querySelector("pre").replaceWith(pre);
  }
  for (const table of root.querySelectorAll("table")) {
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", texts.table);
    table.replaceWith(box);
    box.append(table);
  }
  // Two levels lower, below the headings of the page and the message.
  for (const heading of root.querySelectorAll("h1, h2, h3, h4")) heading.setAttribute("aria-level", Number(heading.tagName[1]) + 2);
  for (const box of root.querySelectorAll("input[type=checkbox]")) box.setAttribute("aria-label", texts.task);
  for (const formula of root.querySelectorAll(".math")) renderMath(formula);
}

/** Handle clicks on the buttons of all code blocks. */
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

/** Copy text to the clipboard. Pages on plain HTTP have no clipboard API, so use execCommand there. */
export async function copyText(app, text) {
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text);
    else if (!copyWithExecCommand(text)) throw new Error("refused");
    app.showToast(app.texts.copied);
  } catch {
    app.showToast(app.texts.notCopied);
  }
}

function copyWithExecCommand(text) {
  const textarea = document.createElement("textarea");
  const previousFocus = document.activeElement;
  textarea.className = "hidden";
  textarea.value = text;
  document.body.append(textarea);
  textarea.select();
  const copied = document.execCommand("copy");
  textarea.remove();
  previousFocus?.focus();
  return copied;
}
