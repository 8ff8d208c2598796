/** Edits a sent message in place. */

import { cloneTemplate } from "../../shared/elements.js";

/** @param {Element} element of the message @param {(text: string) => void} onDone called with the changed text */
export function editMessage(element, text, onDone) {
  if (element.querySelector(".editor")) return;
  const form = cloneTemplate("message-editor");
  const field = form.querySelector("textarea");
  field.value = text;
  element.classList.add("edited");
  element.append(form);
  resize();
  field.focus();

  function close() {
    form.remove();
    element.classList.remove("edited");
    element.querySelector('[data-act="edit"]').focus();
  }

  function resize() {
    field.rows = Math.min(14, field.value.split("\n").length);
  }

  function submit() {
    const newText = field.value.trim();
    close();
    if (newText) onDone(newText);
  }

  field.addEventListener("input", resize);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  form.querySelector(".cancel").addEventListener("click", close);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault(); // Escape should not also stop the run
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target === field) {
      event.preventDefault();
      submit();
    }
  });
}
