/* What the admin's pages need besides Django's own scripts and unfold's. */

const EDITABLE = "input, textarea, select, [contenteditable]";

/* `/` goes to the search field, as the hint beside it says. */
document.addEventListener("keydown", (event) => {
  const search = document.getElementById("searchbar");
  if (event.key !== "/" || !search || event.ctrlKey || event.metaKey || event.altKey || event.target.closest(EDITABLE)) return;
  event.preventDefault();
  search.focus();
});

/* The menu is longer than most screens: where one is should be in sight. */
document.querySelector("#admin-nav [aria-current=page]")?.scrollIntoView({ block: "nearest" });

/* The filters lie above the page, so what opens from a field of theirs has to be inside them. Django reads this when it is ready. */
for (const field of document.querySelectorAll("#changelist-filter select")) field.dataset.dropdownParent = "#changelist-filter";

/* What unfold and Django leave without a name or a role. */
document.getElementById("main")?.setAttribute("role", "main");
for (const field of document.querySelectorAll("#result_list td[data-label] :is(input, select, textarea):not([type=hidden])")) {
  const row = field.closest("tr").querySelector("th a, th");
  field.setAttribute("aria-label", `${field.closest("td").dataset.label}, ${row.textContent.trim()}`);
}
addEventListener("load", () => setTimeout(() => {
  for (const sign of document.querySelectorAll(".help-tooltip")) sign.setAttribute("role", "img");
  for (const box of document.querySelectorAll(".select2-selection[role=combobox]")) {
    const select = box.closest(".select2-container").previousElementSibling;
    const label = select.labels?.[0] ?? box.closest(".admin-filter")?.querySelector("h3");
    const shown = box.querySelector(".select2-selection__rendered");
    if (!label || !shown) continue;
    label.id ||= `${select.id}-label`;
    shown.removeAttribute("role"); // it is the box's value, and no second field
    shown.removeAttribute("aria-readonly");
    box.setAttribute("aria-labelledby", `${label.id} ${shown.id}`);
  }
})); // after Django's own, which are made when the page has loaded
