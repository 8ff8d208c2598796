/** Small helps for forms: looking at what one has typed into a password field, and copying a secret. Forms work without. */

for (const button of document.querySelectorAll("[data-reveal]")) {
  const field = document.getElementById(button.getAttribute("aria-controls"));
  const words = { true: button.dataset.hide, false: button.textContent };
  const show = (shown) => {
    field.type = shown ? "text" : "password";
    button.textContent = words[shown];
    button.setAttribute("aria-pressed", String(shown));
  };
  button.hidden = false;
  button.addEventListener("click", () => show(field.type === "password"));
  field.form?.addEventListener("submit", () => show(false)); // browsers offer to keep only what was sent as a password
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  const said = document.getElementById(button.dataset.says);
  button.addEventListener("click", async () => {
    source.select();
    // The clipboard exists on secure origins only; what is selected can be copied on all.
    const done = navigator.clipboard
      ? await navigator.clipboard.writeText(source.value).then(() => true, () => false)
      : document.execCommand("copy");
    said.textContent = done ? button.dataset.done : button.dataset.failed;
  });
}
