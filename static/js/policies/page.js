/** The policy explanation page: updates when a field changes or typing pauses. htmx sends the request, the server renders. */

import { startEntryFields } from "./entry_fields.js";

const PAUSE_MS = 250;

const form = document.getElementById("question");
let timer = null;

function requestUpdate() {
  clearTimeout(timer);
  timer = null;
  form.dispatchEvent(new CustomEvent("ask"));
}

form?.addEventListener("input", ({ target }) => {
  // Scope fields update on change only: half a name is another scope, whose rule would be loaded.
  if (target.closest(".place") || target.matches("select, [type=checkbox]")) return;
  clearTimeout(timer);
  timer = setTimeout(requestUpdate, PAUSE_MS);
});
form?.addEventListener("change", requestUpdate);

const lost = document.getElementById("lost");
for (const name of ["htmx:sendError", "htmx:responseError"]) document.body.addEventListener(name, () => (lost.hidden = false));
document.body.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && lost && (lost.hidden = true));

startEntryFields(document);
