/** The keyboard on the list of questions: j and k move, a approves once, d denies, e extends, x chooses, ? helps. */

const OPEN = ".question[data-status=pending]";

export function startKeys(list) {
  const help = document.getElementById("keys");
  const button = document.getElementById("show-keys");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
    if (event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable], .menu")) return;
    const act = ACTS[event.key];
    if (!act) return;
    event.preventDefault();
    act(current());
  });

  const current = () => document.activeElement?.closest?.(".question");

  function move(question, by) {
    const all = [...list.querySelectorAll(".question")];
    const at = all.indexOf(question);
    const next = at < 0 ? all.find((each) => each.matches(OPEN)) ?? all[0] : all[Math.min(all.length - 1, Math.max(0, at + by))];
    if (!next) return;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  /** Only ever the one that has the focus: a key must not hit a question that nobody points at. */
  const press = (selector) => (question) => question?.querySelector(selector)?.click();

  const ACTS = {
    j: (question) => move(question, 1),
    k: (question) => move(question, -1),
    a: press("[data-act=once]:not(:disabled)"),
    e: press("[data-act=extend]"),
    x: press(".choose:not(:disabled)"),
    d(question) {
      const menu = question?.querySelector("details.deny");
      if (!menu) return;
      menu.open = true;
      menu.querySelector("input[name=reason]").focus();
    },
    "?": () => help?.showModal(),
  };
}
