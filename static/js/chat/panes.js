/** The panes: sessions on the left, details on the right. On phones they cover the chat. */

export function startPanes(app) {
  const panes = {
    sessions: { pane: document.getElementById("sessions"), button: document.getElementById("toggle-sessions") },
    details: { pane: document.getElementById("details"), button: document.getElementById("toggle-details") },
  };
  const narrow = matchMedia("(max-width: 46rem)");

  app.togglePane = (name, open = !panes[name].pane.classList.contains("open")) => {
    const { pane, button } = panes[name];
    if (open === pane.classList.contains("open")) return;
    pane.classList.toggle("open", open);
    button.setAttribute("aria-expanded", String(open));
    if (open && narrow.matches) pane.querySelector("a, button, input")?.focus();
    else if (!open && pane.contains(document.activeElement)) button.focus();
    app.emit("pane", { name, open });
  };

  for (const name of Object.keys(panes)) panes[name].button.addEventListener("click", () => app.togglePane(name));
  app.on("session", () => narrow.matches && Object.keys(panes).forEach((name) => app.togglePane(name, false)));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    for (const [name, { pane }] of Object.entries(panes)) {
      if (!narrow.matches || !pane.classList.contains("open")) continue;
      event.preventDefault();
      app.togglePane(name, false);
    }
  });
}
