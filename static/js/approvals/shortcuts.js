/** Keyboard shortcuts of the approvals list: j and k move, a approves once, d denies, e extends, x selects, ? shows help. */

const PENDING = ".question[data-status=pending]";

export function startShortcuts(list) {
  const help = document.getElementById("keys");
  const button = document.getElementById("show-keys");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
    if (event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable], .menu")) return;
    const action = ACTIONS[event.key];
    if (!action) return;
    event.preventDefault();
    action(focusedCard());
  });

  const focusedCard = () => document.activeElement?.closest?.(".question");

  function move(card, offset) {
    const cards = [...list.querySelectorAll(".question")];
    const index = cards.indexOf(card);
    const next = index < 0
      ? cards.find((candidate) => candidate.matches(PENDING)) ?? cards[0]
      : cards[Math.min(cards.length - 1, Math.max(0, index + offset))];
    if (!next) return;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  /** Only acts on the focused card: a key must never decide a request the user is not looking at. */
  const clickInside = (selector) => (card) => card?.querySelector(selector)?.click();

  const ACTIONS = {
    j: (card) => move(card, 1),
    k: (card) => move(card, -1),
    a: clickInside("[data-act=once]:not(:disabled)"),
    e: clickInside("[data-act=extend]"),
    x: clickInside(".choose:not(:disabled)"),
    d(card) {
      const menu = card?.querySelector("details.deny");
      if (!menu) return;
      menu.open = true;
      menu.querySelector("input[name=reason]").focus();
    },
    "?": () => help?.showModal(),
  };
}
