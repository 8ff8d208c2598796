/**
 * Enables approval only after the whole command was displayed: its end must have been visible, both in its box and on the screen.
 *
 * Without this script, the page shows the full text and nothing is disabled; the server denies commands it did not display.
 */

const readCommands = new WeakSet(); // command boxes that were fully displayed

const endObserver = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    endObserver.unobserve(target);
    const box = target.closest(".command");
    readCommands.add(box);
    const card = box.closest(".question");
    if (card) release(card);
  }
});

/** Disable the card's decision controls until its command has been read. */
export function holdUntilRead(card) {
  const box = card.querySelector(".command");
  if (!box || card.dataset.status !== "pending" || readCommands.has(box)) return release(card);
  for (const element of card.querySelectorAll("[data-after-reading]")) setDisabled(element, true);
  const note = card.querySelector(".unread");
  box.classList.add("folds");
  // The note is only needed if the command overflows its box; otherwise the end becomes visible on its own.
  if (note) note.hidden = box.scrollHeight <= box.clientHeight + 1;
  card.querySelector("[data-act=unfold]")?.addEventListener("click", () => {
    box.classList.remove("folds");
    note.hidden = true;
    box.focus();
  });
  endObserver.observe(box.querySelector(".end"));
}

function release(card) {
  for (const element of card.querySelectorAll("[data-after-reading]")) setDisabled(element, false);
  const note = card.querySelector(".unread");
  if (note) note.hidden = true;
  card.dispatchEvent(new CustomEvent("read", { bubbles: true }));
}

function setDisabled(element, disabled) {
  if (element.matches("summary")) {
    element.setAttribute("aria-disabled", String(disabled));
    if (disabled) element.closest("details").open = false;
  } else element.disabled = disabled;
}

// A <summary> cannot be disabled, so cancel its click.
document.addEventListener("click", (event) => {
  if (event.target.closest?.("summary[aria-disabled=true]")) event.preventDefault();
});
