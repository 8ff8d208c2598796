/** Welcome, loading and error views shown instead of the messages, and the connection banner above them. */

import { fill } from "../../shared/texts.js";

const BANNER_DELAY_MS = 400; // shorter catch-ups are not worth showing

export function startPlaceholders(app) {
  const { texts, gateway } = app;
  const byId = (id) => document.getElementById(id);
  const parts = { welcome: byId("welcome"), loading: byId("skeleton"), trouble: byId("trouble") };
  const banner = byId("banner");
  let bannerTimer = null;
  let countdown = null;

  /** Show welcome, loading or trouble; hide all of them with null. */
  function show(name) {
    for (const [partName, part] of Object.entries(parts)) part.hidden = partName !== name;
    byId("log").setAttribute("aria-busy", String(name === "loading"));
    if (name !== "welcome") return;
    const isMainSession = app.feed.sessionKey === app.mainKey;
    parts.welcome.classList.toggle("first", isMainSession);
  }

  /** @param {{title: string, text: string, actions: [string, Function][]}} error with the actions offered */
  function showError({ title, text, actions = [] }) {
    parts.trouble.querySelector("h2").textContent = title;
    parts.trouble.querySelector("p").textContent = text;
    parts.trouble.querySelector(".actions").replaceChildren(...actions.map(([label, onClick]) => createButton(label, onClick)));
    show("trouble");
    app.announce(`${title} ${text}`);
  }

  /** Show a banner above the messages; hide it if the text is empty. */
  function showBanner(text, label = "", onClick = null) {
    banner.hidden = !text;
    banner.querySelector(".text").textContent = text;
    banner.querySelector(".act").replaceChildren(...(onClick ? [createButton(label, onClick)] : []));
  }

  function createButton(label, onClick) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = label;
    element.addEventListener("click", onClick);
    return element;
  }

  /** Show that the page is catching up, if it takes noticeably long. */
  async function whileCatchingUp(promise) {
    clearTimeout(bannerTimer);
    bannerTimer = setTimeout(() => parts.loading.hidden && showBanner(texts.catchingUp), BANNER_DELAY_MS);
    try {
      return await promise;
    } finally {
      clearTimeout(bannerTimer);
      if (gateway.ready) showBanner("");
    }
  }

  app.on("connection", ({ name, until }) => {
    clearInterval(countdown);
    const reload = () => location.reload();
    if (name === "ready" || name === "connecting") return name === "ready" && showBanner("");
    if (name === "signed-out") return showBanner(texts.signedOut, texts.signIn, reload);
    if (name === "outdated") return showBanner(texts.outdated, texts.reloadPage, reload);
    if (name === "refused") return showBanner(texts.refused, texts.retryNow, reload);
    showBanner(texts.noConnection, texts.retryNow, () => gateway.retry());
    const text = banner.querySelector(".text");
    const tick = () => {
      text.textContent = fill(texts.noConnectionFor, Math.max(1, Math.ceil((until - Date.now()) / 1000)));
    };
    countdown = setInterval(tick, 1000);
    tick();
  });
  parts.welcome.addEventListener("click", ({ target }) => {
    const example = target.closest("[data-prompt]");
    if (!example) return;
    app.send({ message: example.dataset.prompt });
    app.focusField(); // the focused button disappears with the welcome view
  });

  return {
    show,
    showError,
    whileCatchingUp,
    get isErrorShown() {
      return !parts.trouble.hidden;
    },
  };
}
