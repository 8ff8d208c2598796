/** The policy explanation page: updates when a field changes or typing pauses. htmx sends the request, the server renders. */

import { startEntryFields } from "./entry_fields.js";

const DEBOUNCE_MS = 250;

const form = document.getElementById("question");
let timer = null;

function requestUpdate() {
  clearTimeout(timer);
  timer = null;
  form.dispatchEvent(new CustomEvent("ask"));
}

form?.addEventListener("input", ({ target }) => {
  // Scope fields update on change only: a partly typed name is a different scope, whose rule would be loaded.
  if (target.closest(".place") || target.matches("select, [type=checkbox]")) return;
  clearTimeout(timer);
  timer = setTimeout(requestUpdate, DEBOUNCE_MS);
});
form?.addEventListener("change", requestUpdate);

const connectionNotice = document.getElementById("lost");
for (const name of ["htmx:sendError", "htmx:responseError"]) {
  document.body.addEventListener(name, () => (connectionNotice.hidden = false));
}
document.body.addEventListener("htmx:afterRequest", ({ detail }) => {
  if (detail.successful && connectionNotice) connectionNotice.hidden = true;
});

startEntryFields(document);
