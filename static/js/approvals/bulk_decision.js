/** Choosing several questions, to give all of them the same answer. Only what has been shown can be chosen. */

import { fill } from "../shared/texts.js";

export function startSeveral(list, words) {
  const form = document.getElementById("several");
  if (!form) return () => {};
  const all = document.getElementById("choose-all");
  const boxes = () => [...list.querySelectorAll(".choose")];

  function draw() {
    const usable = boxes();
    for (const box of usable) box.hidden = false;
    const chosen = usable.filter((box) => box.checked);
    form.hidden = usable.length < 2 && !chosen.length;
    form.classList.toggle("active", chosen.length > 0);
    document.getElementById("chosen-count").textContent = chosen.length ? fill(words.chosen, chosen.length) : "";
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = !chosen.length;
    const seen = usable.filter((box) => !box.disabled);
    all.checked = seen.length > 0 && seen.every((box) => box.checked);
    all.indeterminate = !all.checked && chosen.length > 0;
  }

  all.addEventListener("change", () => {
    for (const box of boxes()) if (!box.disabled) box.checked = all.checked;
    draw();
  });
  list.addEventListener("change", (event) => event.target.matches(".choose") && draw());
  list.addEventListener("read", draw);
  form.addEventListener("htmx:afterRequest", () => {
    form.querySelector("details").open = false;
    form.querySelector("[name=reason]").value = "";
    draw();
  });
  draw();
  return draw;
}
