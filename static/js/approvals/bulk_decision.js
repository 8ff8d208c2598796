/** Selects several requests for one decision. Only requests that have been displayed can be selected. */

import { fill } from "../shared/texts.js";

export function startBulkDecision(list, texts) {
  const form = document.getElementById("several");
  if (!form) return () => {};
  const selectAll = document.getElementById("choose-all");
  const findCheckboxes = () => [...list.querySelectorAll(".choose")];

  function render() {
    const checkboxes = findCheckboxes();
    for (const checkbox of checkboxes) checkbox.hidden = false;
    const selected = checkboxes.filter((checkbox) => checkbox.checked);
    form.hidden = checkboxes.length < 2 && !selected.length;
    form.classList.toggle("active", selected.length > 0);
    document.getElementById("chosen-count").textContent = selected.length ? fill(texts.chosen, selected.length) : "";
    for (const button of form.querySelectorAll("button[type=submit]")) button.disabled = !selected.length;
    const enabled = checkboxes.filter((checkbox) => !checkbox.disabled);
    selectAll.checked = enabled.length > 0 && enabled.every((checkbox) => checkbox.checked);
    selectAll.indeterminate = !selectAll.checked && selected.length > 0;
  }

  selectAll.addEventListener("change", () => {
    for (const checkbox of findCheckboxes()) if (!checkbox.disabled) checkbox.checked = selectAll.checked;
    render();
  });
  list.addEventListener("change", (event) => event.target.matches(".choose") && render());
  list.addEventListener("read", render);
  form.addEventListener("htmx:afterRequest", () => {
    form.querySelector("details").open = false;
    form.querySelector("[name=reason]").value = "";
    render();
  });
  render();
  return render;
}
