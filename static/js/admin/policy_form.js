/** Policy fields in the admin: suggests entries and, when typing pauses, shows errors and warnings next to each field. */

import { startEntryFields } from "../policies/entry_fields.js";

const PAUSE_MS = 300;
const NAMES = ["scope", "subject", "provider", "channel", "group", "sender", "profile", "allow", "deny", "also_allow"];

startEntryFields(document);

const watched = document.querySelector("[data-findings]");
if (watched) {
  let timer = null;
  let lastRequest = 0;
  const form = watched.form;

  const check = async () => {
    const number = ++lastRequest;
    const address = new URL(watched.dataset.findings, location.href);
    for (const name of NAMES) if (form.elements[name]) address.searchParams.set(name, form.elements[name].value);
    // On an agent form, the rule belongs to that agent, whose ID may still be changing.
    if (form.elements.slug) address.searchParams.set("subject", form.elements.slug.value);
    const response = await fetch(address, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!response?.ok || number !== lastRequest) return; // saving reports it
    show((await response.json()).findings);
  };

  const show = (findings) => {
    for (const name of NAMES) {
      const field = form.elements[name];
      if (!field) continue;
      const fieldFindings = findings.filter((each) => each.field === name);
      findBox(field).replaceChildren(...fieldFindings.map(({ words, level }) => createParagraph(words, level)));
      field.setAttribute("aria-invalid", String(fieldFindings.some(({ level }) => level === "error")));
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE_MS);
  });
  form.addEventListener("change", check);
}

function findBox(field) {
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
  const line = document.createElement("p");
  line.className = level;
  line.textContent = text;
  return line;
}
