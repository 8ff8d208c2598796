/* Additions to the scripts of Django's admin and unfold. */

const EDITABLE = "input, textarea, select, [contenteditable]";

/* `/` focuses the search field, as the hint next to it says. */
document.addEventListener("keydown", (event) => {
  const search = document.getElementById("searchbar");
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(EDITABLE)) return;
  event.preventDefault();
  search.focus();
});

/* The menu is longer than most screens: scroll the current entry into view. */
document.querySelector("#admin-nav [aria-current=page]")?.scrollIntoView({ block: "nearest" });

/* The filter panel overlays the page, so dropdowns of its fields must be inside it. Django reads this attribute on load. */
for (const field of document.querySelectorAll("#changelist-filter select")) field.dataset.dropdownParent = "#changelist-filter";

/* Add accessible names and roles that unfold and Django leave out. */
document.getElementById("main")?.setAttribute("role", "main");
for (const field of document.querySelectorAll("#result_list td[data-label] :is(input, select, textarea):not([type=hidden])")) {
  const row = field.closest("tr").querySelector("th a, th");
  field.setAttribute("aria-label", `${field.closest("td").dataset.label}, ${row.textContent.trim()}`);
}
addEventListener("load", () => setTimeout(() => {
  for (const icon of document.querySelectorAll(".help-tooltip")) icon.setAttribute("role", "img");
  for (const combobox of document.querySelectorAll(".select2-selection[role=combobox]")) {
    const select = combobox.closest(".select2-container").previousElementSibling;
    const label = select.labels?.[0] ?? combobox.closest(".admin-filter")?.querySelector("h3");
    const valueElement = combobox.querySelector(".select2-selection__rendered");
    if (!label || !valueElement) continue;
    label.id ||= `${select.id}-label`;
    valueElement.removeAttribute("role"); // this element shows the combobox's value and is not a second field
    valueElement.removeAttribute("aria-readonly");
    combobox.setAttribute("aria-labelledby", `${label.id} ${valueElement.id}`);
  }
})); // after Django's widgets, which are created on load
