/** Selects several requests for one decision. Only requests that have been displayed can be selected. */

import { fill } from "../shared/texts.js";

export function startBulkDecision(list, texts) {
  const form = document.getElementById("several");
  if (!form) return () => {};
  const all = document.getElementById("choose-all");
  const findCheckboxes = () => [...list.querySelectorAll(".choose")];

  function draw() {
    const checkboxes = findCheckboxes();
    for (const box of checkboxes) box.hidden = false;
    const chosen = checkboxes.filter((box) => box.checked);
    form.hidden = checkboxes.length < 2 && !chosen.length;
    form.classList.toggle("active", chosen.length > 0);
    document.getElementById("chosen-count").textContent = chosen.length ? fill(texts.chosen, chosen.length) : "";
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = !chosen.length;
    const enabled = checkboxes.filter((box) => !box.disabled);
    all.checked = enabled.length > 0 && enabled.every((box) => box.checked);
    all.indeterminate = !all.checked && chosen.length > 0;
  }

  all.addEventListener("change", () => {
    for (const box of findCheckboxes()) if (!box.disabled) box.checked = all.checked;
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
