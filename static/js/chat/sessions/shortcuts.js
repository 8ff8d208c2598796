/** Keyboard shortcuts of the session list: arrow keys, F2 and Delete on a row; Alt with an arrow key switches sessions anywhere. */

export function startSessionShortcuts(app, { root, actions, activate }) {
  root.addEventListener("focusin", ({ target }) => {
    const row = target.closest("li");
    if (row) activate(row.dataset.key);
  });

  root.addEventListener("keydown", (event) => {
    const row = event.target.closest("li");
    if (!row || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const action = KEY_ACTIONS[event.key];
    if (action) action(row);
    else if (event.key === "F2") actions.rename(row.dataset.key);
    else if (event.key === "Delete") actions.delete(row.dataset.key);
    else if (event.key === "ContextMenu") row.querySelector(".more").click();
    else return;
    event.preventDefault();
  });

  const links = () => [...root.querySelectorAll("li > a")];
  const focusRow = (row, offset) => links()[links().indexOf(row.querySelector("a")) + offset]?.focus();
  const KEY_ACTIONS = {
    ArrowDown: (row) => focusRow(row, 1),
    ArrowUp: (row) => focusRow(row, -1),
    Home: () => links()[0].focus(),
    End: () => links().at(-1).focus(),
    ArrowRight: (row) => row.querySelector(".more").focus(),
    ArrowLeft: (row) => row.querySelector("a").focus(),
  };

  addEventListener("keydown", (event) => {
    if (!event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    app.sessions.step(event.key === "ArrowDown" ? 1 : -1);
  });

  // On phones the panes cover the chat: a tap outside closes them and does nothing else.
  const narrow = matchMedia("(max-width: 46rem)");
  document.getElementById("main").addEventListener(
    "click",
    (event) => {
      const openPanes = ["sessions", "details"].filter((name) => document.getElementById(name).classList.contains("open"));
      if (!narrow.matches || !openPanes.length) return;
      event.preventDefault();
      event.stopPropagation();
      for (const name of openPanes) app.togglePane(name, false);
    },
    true,
  );
}
