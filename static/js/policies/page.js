/** The explanation page: asks again when a field changes, and at a pause in typing. htmx sends, the server draws. */

import { startEntries } from "./entry_fields.js";

const PAUSE_MS = 250;

const form = document.getElementById("question");
let timer = null;

function ask() {
  clearTimeout(timer);
  timer = null;
  form.dispatchEvent(new CustomEvent("ask"));
}

form?.addEventListener("input", ({ target }) => {
  // Where a rule applies is asked when it is written: half a name is another place, whose rule would be fetched.
  if (target.closest(".place") || target.matches("select, [type=checkbox]")) return;
  clearTimeout(timer);
  timer = setTimeout(ask, PAUSE_MS);
});
form?.addEventListener("change", ask);

const lost = document.getElementById("lost");
for (const name of ["htmx:sendError", "htmx:responseError"]) document.body.addEventListener(name, () => (lost.hidden = false));
document.body.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && lost && (lost.hidden = true));

startEntries(document);
