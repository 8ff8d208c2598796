/** Policy fields in the admin: suggests entries and, when typing pauses, shows errors and warnings next to each field. */

import { startEntryFields } from "../policies/entry_fields.js";

const DEBOUNCE_MS = 300;
const FIELD_NAMES = ["scope", "subject", "provider", "channel", "group", "sender", "profile", "allow", "deny", "also_allow"];

startEntryFields(document);

const watchedField = document.querySelector("[data-findings]");
if (watchedField) {
  let timer = null;
  let lastRequest = 0;
  const form = watchedField.form;

  const check = async () => {
    const requestNumber = ++lastRequest;
    const url = new URL(watchedField.dataset.findings, location.href);
    for (const name of FIELD_NAMES) if (form.elements[name]) url.searchParams.set(name, form.elements[name].value);
    // On an agent form, the rule belongs to that agent, whose ID may still be changing.
    if (form.elements.slug) url.searchParams.set("subject", form.elements.slug.value);
    const response = await fetch(url, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!response?.ok || requestNumber !== lastRequest) return; // errors are also reported on saving
    renderFindings((await response.json()).findings);
  };

  const renderFindings = (findings) => {
    for (const name of FIELD_NAMES) {
      const field = form.elements[name];
      if (!field) continue;
      const fieldFindings = findings.filter((finding) => finding.field === name);
      getFindingsBox(field).replaceChildren(...fieldFindings.map(({ words: text, level }) => createParagraph(text, level)));
      field.setAttribute("aria-invalid", String(fieldFindings.some(({ level }) => level === "error")));
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, DEBOUNCE_MS);
  });
  form.addEventListener("change", check);
}

function getFindingsBox(field) {
  const id = `${field.id}_findings`;
  const existing = document.getElementById(id);
  if (existing) return existing;
  const box = document.createElement("div");
  Object.assign(box, { id, className: "policy-findings" });
  box.setAttribute("aria-live", "polite");
  (field.nextElementSibling?.matches(".entry-list") ? field.nextElementSibling : field).after(box);
  field.setAttribute("aria-describedby", `${field.getAttribute("aria-describedby") ?? ""} ${id}`.trim());
  return box;
}

function createParagraph(text, level) {
  const paragraph = document.createElement("p");
  paragraph.className = level;
  paragraph.textContent = text;
  return paragraph;
}
