/** New conversations: with the default agent, or where there are several, with a chosen one. */

import { copyOf, put } from "../../shared/elements.js";
import { popup } from "../popup_menu.js";

export function startAgentChoice(app) {
  const button = document.getElementById("choose-agent");
  const menu = document.getElementById("agent-menu");
  const shown = popup(menu);

  document.getElementById("new-session").addEventListener("click", () => app.sessions.startNew());
  button.addEventListener("click", () => shown.toggle(button));
  menu.addEventListener("click", ({ target }) => {
    const choice = target.closest("[data-agent]");
    if (choice) app.sessions.startNew(choice.dataset.agent);
  });
  app.on("connection", async ({ name }) => {
    if (name !== "ready") return;
    const { agents } = await app.gateway.request("agents.list").catch(() => ({ agents: app.sessions.agents }));
    app.sessions.agents = agents;
    button.hidden = agents.length < 2;
    menu.replaceChildren(...agents.map(choiceOf));
    app.emit("agents");
    app.sessions.refresh();
  });

  function choiceOf({ id, name, model }) {
    const choice = copyOf("agent-choice");
    choice.dataset.agent = id;
    put(choice.querySelector(".name"), name);
    put(choice.querySelector(".model"), model?.primary);
    return choice;
  }
}
