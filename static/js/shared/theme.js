/**
 * The theme switch: applies to this page and other open pages immediately, then is stored on the server.
 *
 * Pages load in the right theme without it, because the server sets it on <html>.
 */

const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("clawsite-theme") : null;

/** @param {"system" | "light" | "dark"} theme */
export function showTheme(theme) {
  const root = document.documentElement;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  document.querySelector("meta[name=color-scheme]").content = theme === "system" ? "light dark" : theme;
  const metas = [...document.querySelectorAll("meta[name=theme-color]")];
  for (const meta of metas) {
    const source = metas.find(({ dataset }) => dataset.scheme === (theme === "system" ? meta.dataset.scheme : theme));
    meta.content = source.dataset.paper;
  }
  for (const button of document.querySelectorAll("[data-theme-switch] button")) {
    button.setAttribute("aria-pressed", String(button.value === theme));
  }
}

/** Store the choice. Without a connection the theme changes only until the page is reloaded. */
async function store(form, theme) {
  const body = new FormData(form);
  body.set("theme", theme);
  const response = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } }).catch(() => null);
  // The user signed in or out since the page was loaded: submit the form, so that the server shows the reason.
  if (response?.status === 403) form.submit();
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("[data-theme-switch]") || !event.submitter?.value) return;
  event.preventDefault();
  showTheme(event.submitter.value);
  channel?.postMessage(event.submitter.value);
  store(form, event.submitter.value);
});

channel?.addEventListener("message", ({ data }) => showTheme(data));
