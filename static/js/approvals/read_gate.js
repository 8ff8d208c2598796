/**
 * A command can be approved when all of it has been shown: its end must have come into view, inside its box and on the screen.
 *
 * Without this script the whole text is on the page and nothing is held back; the server refuses what it did not show.
 */

const readCommands = new WeakSet(); // boxes of commands

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

/** Hold back the answers of a card until its command has been read. */
export function holdUntilRead(card) {
  const box = card.querySelector(".command");
  if (!box || card.dataset.status !== "pending" || readCommands.has(box)) return release(card);
  for (const element of card.querySelectorAll("[data-after-reading]")) setDisabled(element, true);
  const note = card.querySelector(".unread");
  box.classList.add("folds");
  // Only what does not fit its box needs to be said; the rest comes into view by itself.
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

// A <summary> cannot be disabled, so its click is.
document.addEventListener("click", (event) => {
  if (event.target.closest?.("summary[aria-disabled=true]")) event.preventDefault();
});
