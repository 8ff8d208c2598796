/** What is shown instead of or above the messages: welcome, loading, error, connection banner. */

import { fill } from "../../shared/texts.js";

const BANNER_DELAY_MS = 400; // shorter catch-ups are not worth showing

export function startPlaceholders(app) {
  const { texts, gateway } = app;
  const byId = (id) => document.getElementById(id);
  const parts = { welcome: byId("welcome"), loading: byId("skeleton"), trouble: byId("trouble") };
  const banner = byId("banner");
  let bannerTimer = null;
  let countdown = null;

  /** One of welcome, loading, trouble; null if there are messages. */
  function show(name) {
    for (const [each, part] of Object.entries(parts)) part.hidden = each !== name;
    byId("log").setAttribute("aria-busy", String(name === "loading"));
    if (name !== "welcome") return;
    const first = app.feed.sessionKey === app.mainKey;
    parts.welcome.classList.toggle("first", first);
  }

  /** @param {{title: string, text: string, actions: [string, Function][]}} error with the actions offered */
  function showError({ title, text, actions = [] }) {
    parts.trouble.querySelector("h2").textContent = title;
    parts.trouble.querySelector("p").textContent = text;
    parts.trouble.querySelector(".actions").replaceChildren(...actions.map(([label, act]) => createButton(label, act)));
    show("trouble");
    app.announce(`${title} ${text}`);
  }

  /** A banner above the messages, hidden without text. */
  function showBanner(text, label = "", act = null) {
    banner.hidden = !text;
    banner.querySelector(".text").textContent = text;
    banner.querySelector(".act").replaceChildren(...(act ? [createButton(label, act)] : []));
  }

  function createButton(label, act) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = label;
    element.addEventListener("click", act);
    return element;
  }

  /** Show that the page is catching up, if it takes noticeably long. */
  async function whileCatchingUp(work) {
    clearTimeout(bannerTimer);
    bannerTimer = setTimeout(() => parts.loading.hidden && showBanner(texts.catchingUp), BANNER_DELAY_MS);
    try {
      return await work;
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
    app.focusField(); // its button disappears with the welcome
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
