/** What stands in the place of a conversation, or above it: welcome, loading, trouble, no connection. */

import { fill } from "../../shared/texts.js";

const LATE_MS = 400; // catching up that takes no longer is not worth a word

export function startStates(app) {
  const { words, gateway } = app;
  const at = (id) => document.getElementById(id);
  const parts = { welcome: at("welcome"), loading: at("skeleton"), trouble: at("trouble") };
  const banner = at("banner");
  let late = null;
  let countdown = null;

  /** One of welcome, loading, trouble; null when there are messages. */
  function show(name) {
    for (const [each, part] of Object.entries(parts)) part.hidden = each !== name;
    at("log").setAttribute("aria-busy", String(name === "loading"));
    if (name !== "welcome") return;
    const first = app.feed.sessionKey === app.mainKey;
    parts.welcome.classList.toggle("first", first);
  }

  /** @param {{title: string, text: string, actions: [string, Function][]}} what one can do about it */
  function trouble({ title, text, actions = [] }) {
    parts.trouble.querySelector("h2").textContent = title;
    parts.trouble.querySelector("p").textContent = text;
    parts.trouble.querySelector(".actions").replaceChildren(...actions.map(([label, act]) => button(label, act)));
    show("trouble");
    app.say(`${title} ${text}`);
  }

  /** A line above the conversation. Without a text there is none. */
  function tell(text, label = "", act = null) {
    banner.hidden = !text;
    banner.querySelector(".text").textContent = text;
    banner.querySelector(".act").replaceChildren(...(act ? [button(label, act)] : []));
  }

  function button(label, act) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = label;
    element.addEventListener("click", act);
    return element;
  }

  /** Say that we are catching up, if it takes long enough to be noticed. */
  async function whileCatchingUp(work) {
    clearTimeout(late);
    late = setTimeout(() => parts.loading.hidden && tell(words.catchingUp), LATE_MS);
    try {
      return await work;
    } finally {
      clearTimeout(late);
      if (gateway.ready) tell("");
    }
  }

  app.on("connection", ({ name, until }) => {
    clearInterval(countdown);
    const again = () => location.reload();
    if (name === "ready" || name === "connecting") return name === "ready" && tell("");
    if (name === "signed-out") return tell(words.signedOut, words.signIn, again);
    if (name === "outdated") return tell(words.outdated, words.reloadPage, again);
    if (name === "refused") return tell(words.refused, words.retryNow, again);
    tell(words.noConnection, words.retryNow, () => gateway.retry());
    const text = banner.querySelector(".text");
    const tick = () => {
      text.textContent = fill(words.noConnectionFor, Math.max(1, Math.ceil((until - Date.now()) / 1000)));
    };
    countdown = setInterval(tick, 1000);
    tick();
  });
  parts.welcome.addEventListener("click", ({ target }) => {
    const example = target.closest("[data-prompt]");
    if (!example) return;
    app.send({ message: example.dataset.prompt });
    app.focusField(); // the button goes away with the welcome
  });

  return {
    show,
    trouble,
    whileCatchingUp,
    get inTrouble() {
      return !parts.trouble.hidden;
    },
  };
}
