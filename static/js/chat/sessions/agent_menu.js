/** Starts sessions with the default agent or, if there are several, with a chosen one. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { createPopupMenu } from "../popup_menu.js";

export function startAgentMenu(app) {
  const button = document.getElementById("choose-agent");
  const menu = document.getElementById("agent-menu");
  const popupMenu = createPopupMenu(menu);

  document.getElementById("new-session").addEventListener("click", () => app.sessions.startNew());
  button.addEventListener("click", () => popupMenu.toggle(button));
  menu.addEventListener("click", ({ target }) => {
    const choice = target.closest("[data-agent]");
    if (choice) app.sessions.startNew(choice.dataset.agent);
  });
  app.on("connection", async ({ name }) => {
    if (name !== "ready") return;
    const { agents } = await app.gateway.request("agents.list").catch(() => ({ agents: app.sessions.agents }));
    app.sessions.agents = agents;
    button.hidden = agents.length < 2;
    menu.replaceChildren(...agents.map(createChoice));
    app.emit("agents");
    app.sessions.refresh();
  });

  function createChoice({ id, name, model }) {
    const choice = cloneTemplate("agent-choice");
    choice.dataset.agent = id;
    setText(choice.querySelector(".name"), name);
    setText(choice.querySelector(".model"), model?.primary);
    return choice;
  }
}
