/** Policy fields in the admin: suggestions for entries, and at every pause what is wrong or odd, beside the field it is about. */

import { startEntries } from "../policies/entry_fields.js";

const PAUSE_MS = 300;
const NAMES = ["scope", "subject", "provider", "channel", "group", "sender", "profile", "allow", "deny", "also_allow"];

startEntries(document);

const watched = document.querySelector("[data-findings]");
if (watched) {
  let timer = null;
  let asked = 0;
  const form = watched.form;

  const look = async () => {
    const number = ++asked;
    const address = new URL(watched.dataset.findings, location.href);
    for (const name of NAMES) if (form.elements[name]) address.searchParams.set(name, form.elements[name].value);
    // On an agent's form the row is that agent's, whose id may still be being typed.
    if (form.elements.slug) address.searchParams.set("subject", form.elements.slug.value);
    const answer = await fetch(address, { headers: { Accept: "application/json" } }).catch(() => null);
    if (!answer?.ok || number !== asked) return; // saving will say it
    show((await answer.json()).findings);
  };

  const show = (findings) => {
    for (const name of NAMES) {
      const field = form.elements[name];
      if (!field) continue;
      const here = findings.filter((each) => each.field === name);
      boxOf(field).replaceChildren(...here.map(({ words, level }) => paragraph(words, level)));
      field.setAttribute("aria-invalid", String(here.some(({ level }) => level === "error")));
    }
  };

  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE_MS);
  });
  form.addEventListener("change", look);
}

function boxOf(field) {
  const id = `${field.id}_findings`;
  const found = document.getElementById(id);
  if (found) return found;
  const box = document.createElement("div");
  Object.assign(box, { id, className: "policy-findings" });
  box.setAttribute("aria-live", "polite");
  (field.nextElementSibling?.matches(".entry-list") ? field.nextElementSibling : field).after(box);
  field.setAttribute("aria-describedby", `${field.getAttribute("aria-describedby") ?? ""} ${id}`.trim());
  return box;
}

function paragraph(words, level) {
  const line = document.createElement("p");
  line.className = level;
  line.textContent = words;
  return line;
}
