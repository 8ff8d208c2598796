/** Form helpers: show the typed password, copy a secret. Forms work without them. */

for (const button of document.querySelectorAll("[data-reveal]")) {
  const field = document.getElementById(button.getAttribute("aria-controls"));
  const labels = { true: button.dataset.hide, false: button.textContent };
  const show = (visible) => {
    field.type = visible ? "text" : "password";
    button.textContent = labels[visible];
    button.setAttribute("aria-pressed", String(visible));
  };
  button.hidden = false;
  button.addEventListener("click", () => show(field.type === "password"));
  field.form?.addEventListener("submit", () => show(false)); // browsers only offer to save submitted password fields
}

for (const button of document.querySelectorAll("[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  const status = document.getElementById(button.dataset.says);
  button.addEventListener("click", async () => {
    source.select();
    // The clipboard API exists on secure origins only; execCommand works on all.
    const copied = navigator.clipboard
      ? await navigator.clipboard.writeText(source.value).then(() => true, () => false)
      : document.execCommand("copy");
    status.textContent = copied ? button.dataset.done : button.dataset.failed;
  });
}
